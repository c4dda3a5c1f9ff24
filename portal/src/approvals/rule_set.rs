//! The rules of the platform and of projects.

use std::collections::BTreeMap;

use vctl_api::rest::{ApprovalRule, ApprovalRuleSettings};
use vctl_store::{Expect, Revision};

use super::{
    Approvals,
    documents::{RuleDoc, rule},
};
use crate::{
    access::{check_name, expected, expected_or_new},
    audit::{Subject, entry, record::changes},
    documents::{Stored, put, remove},
    environments::Caller,
    error::{Error, nearest},
    size,
};

/// Most rules of the platform, or of a project.
const LIMIT: usize = 200;

impl Approvals {
    /// All rules by key.
    pub(super) async fn rules(&self) -> Result<BTreeMap<String, Stored<RuleDoc>>, Error> {
        let (rules, _) = self.environments.documents.list::<RuleDoc>().await?;
        Ok(rules.into_iter().map(|rule| (rule.value.key.clone(), rule)).collect())
    }

    /// The platform's rules, or a project's own, by name.
    pub(crate) async fn list_rules(&self, project: Option<&str>) -> Result<Vec<ApprovalRule>, Error> {
        let rules = self.rules().await?.into_values().filter(|r| r.value.project.as_deref() == project);
        Ok(rules.map(rule).collect())
    }

    /// One rule.
    ///
    /// # Errors
    /// [`Error::NotFound`] with near names.
    pub(crate) async fn rule(&self, project: Option<&str>, name: &str) -> Result<ApprovalRule, Error> {
        self.stored_rule(project, name).await.map(rule)
    }

    async fn stored_rule(&self, project: Option<&str>, name: &str) -> Result<Stored<RuleDoc>, Error> {
        let mut rules = self.rules().await?;
        rules.remove(&RuleDoc::key(project, name)).filter(|r| r.value.project.as_deref() == project).ok_or_else(|| {
            let near = rules.values().filter(|r| r.value.project.as_deref() == project);
            let nearest = nearest(name, near.map(|r| r.value.name.as_str()));
            Error::NotFound { what: "approval rule", name: name.to_owned(), nearest }
        })
    }

    /// Makes or changes a rule. It holds what is asked for, approved or carried out from now on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what makes no sense; [`Error::Changed`].
    pub(crate) async fn put_rule(
        &self,
        caller: Caller<'_>,
        project: Option<&str>,
        name: &str,
        settings: ApprovalRuleSettings,
        if_revision: Option<Revision>,
    ) -> Result<ApprovalRule, Error> {
        check_name(name)?;
        check(project, &settings)?;
        let key = RuleDoc::key(project, name);
        let rules = self.rules().await?;
        let stored = rules.get(&key);
        if stored.is_none() && rules.values().filter(|r| r.value.project.as_deref() == project).count() >= LIMIT {
            return Err(Error::invalid("invalid-rule", format!("there are {LIMIT} rules already: delete some first")));
        }
        let before = stored.map(|s| s.value.settings.clone()).unwrap_or_default();
        let expect = expected_or_new(stored.map(|s| s.revision), if_revision)?;
        let document = RuleDoc { key, name: name.to_owned(), project: project.map(str::to_owned), settings };
        let detail = changes(&before, &document.settings)?;
        let subject = Subject::of_project(name, project.unwrap_or_default());
        let writes = vec![put(&document, expect)?, entry(self.now(), caller, "approval-rule.set", subject, detail)?];
        let revisions = self.environments.documents.transact(writes).await?;
        let revision = revisions.first().copied().unwrap_or_default();
        Ok(rule(Stored { value: document, revision, created: revision }))
    }

    /// Deletes a rule. What it holds still waits for an answer, by the rules that are left.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Changed`].
    pub(crate) async fn delete_rule(
        &self,
        caller: Caller<'_>,
        project: Option<&str>,
        name: &str,
        if_revision: Option<Revision>,
    ) -> Result<(), Error> {
        let stored = self.stored_rule(project, name).await?;
        expected(stored.revision, if_revision)?;
        let detail = changes(&stored.value.settings, &ApprovalRuleSettings::default())?;
        let subject = Subject::of_project(name, project.unwrap_or_default());
        let writes = vec![
            remove::<RuleDoc>(&stored.value.key, Expect::Revision(stored.revision)),
            entry(self.now(), caller, "approval-rule.delete", subject, detail)?,
        ];
        self.environments.documents.transact(writes).await?;
        Ok(())
    }
}

fn check(project: Option<&str>, settings: &ApprovalRuleSettings) -> Result<(), Error> {
    let invalid = |detail: String| Err(Error::invalid("invalid-rule", detail));
    if project.is_some() && !settings.projects.is_empty() {
        return invalid("a project's rule counts in that project alone: leave `projects` out".to_owned());
    }
    if !(1..=5).contains(&settings.approvals) {
        return invalid("`approvals` is 1 to 5".to_owned());
    }
    if settings.title.chars().count() > 256 {
        return invalid("the title has 256 characters at most".to_owned());
    }
    let names = settings.projects.iter().chain(&settings.templates);
    if settings.projects.len().max(settings.templates.len()) > 200
        || names.clone().any(|n| n.is_empty() || n.chars().count() > 256)
    {
        return invalid("`projects` and `templates` have 200 names of 1 to 256 characters at most".to_owned());
    }
    if let Some(larger) = &settings.larger_than {
        let read: [fn(&str) -> Option<u64>; 3] = [size::parse_millis, size::parse_bytes, size::parse_bytes];
        let quantities = [("cpu", &larger.cpu), ("memory", &larger.memory), ("storage", &larger.storage)];
        for ((name, text), read) in quantities.into_iter().zip(read) {
            if let Some(text) = text
                && read(text).is_none()
            {
                return invalid(format!(
                    "{name}: {text:?} is no quantity: write it as Kubernetes does, such as 500m, 4 or 8Gi"
                ));
            }
        }
        if quantities.iter().all(|(_, text)| text.is_none()) && larger.environments.is_none() {
            return invalid("`largerThan` names cpu, memory, storage or environments, or is left out".to_owned());
        }
    }
    Ok(())
}
