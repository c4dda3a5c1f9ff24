//! The Helm charts of an environment: what its template's charts make, and the releases that are installed in it. Releases are noted before
//! they are installed, so that none can be forgotten.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use vctl_api::names::EnvironmentName;
use vctl_store::Expect;

use crate::{
    documents::{Document, EnvironmentDoc, SecretsDoc, put},
    environments::Environments,
    error::Error,
    helm::{At, HelmError, Release, Session},
    jobs::{create::all_parameters, failure::Failure, work::Work},
    templates::{
        Template,
        charts::{Chart, is_archive},
        render::Input,
    },
};

/// Steps of jobs of environments whose templates have charts: after those of the manifests.
pub(crate) const STEPS: [&str; 2] = ["install charts", "wait for charts"];

/// A release that may be in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    name: String,
    namespace: String,
    /// Of the chart and its values, when it was installed; empty before.
    digest: String,
}

/// The releases of an environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReleasesDoc {
    pub(crate) name: EnvironmentName,
    releases: Vec<Noted>,
}

impl Document for ReleasesDoc {
    const RESOURCE: &'static str = "environmentreleases.vctl.dev";
    fn name(&self) -> &str {
        self.name.as_str()
    }
}

impl From<HelmError> for Failure {
    fn from(e: HelmError) -> Self {
        match e {
            HelmError::Temporary { .. } => Self::Temporary(e.to_string()),
            HelmError::Absent(_) | HelmError::Online { .. } => {
                Self::Permanent(format!("{e}; then `vctl jobs resume` with this job's id"))
            }
            HelmError::Refused { .. } => Self::Permanent(format!(
                "{e}. Correct the chart or its values in another version of the template, or what it needs in the environment"
            )),
        }
    }
}

impl Environments {
    /// Whether jobs of an environment have to do with charts: its template has some, or releases of an earlier one are left.
    pub(crate) async fn has_charts(&self, template: &Template, doc: &EnvironmentDoc) -> Result<bool, Error> {
        if template.charts(doc.kind).next().is_some() {
            return Ok(true);
        }
        let noted = self.documents.get::<ReleasesDoc>(doc.name.as_str()).await?;
        Ok(noted.is_some_and(|noted| !noted.value.releases.is_empty()))
    }

    /// The objects that the charts of an environment make; nobody is asked for them but Helm.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no Helm here, or the chart or its values are not good.
    pub(crate) async fn charted(
        &self,
        template: &Template,
        doc: &EnvironmentDoc,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<Vec<Value>, Error> {
        let mut documents = Vec::new();
        for chart in template.charts(doc.kind) {
            let values = self.chart_values(template, doc, chart, parameters).await?;
            let session = self.helm.session(None, Vec::new())?;
            let at = lay_out(&session, template, chart, &values)?;
            let version = doc.kubernetes_version.git_version();
            documents.extend(session.render(release(chart), at.of(chart), &version).await?);
        }
        Ok(documents)
    }

    async fn chart_values(
        &self,
        template: &Template,
        doc: &EnvironmentDoc,
        chart: &Chart,
        parameters: &BTreeMap<String, Value>,
    ) -> Result<String, Error> {
        let Some(file) = chart.values.as_deref() else { return Ok("{}".to_owned()) };
        let (bindings, _) = self.bound(template, doc, parameters).await?;
        let input = Input {
            environment: doc.name.as_str(),
            kind: doc.kind,
            parameters,
            bindings: &bindings,
            values: Some(file),
        };
        let rendered = self.renderer.render(template, &input).await.map_err(|mut errors| errors.swap_remove(0))?;
        let values = rendered.into_iter().next().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        // JSON is YAML.
        Ok(values.to_string())
    }
}

fn release(chart: &Chart) -> Release<'_> {
    Release { name: &chart.name, namespace: &chart.namespace }
}

struct LaidOut {
    chart: std::path::PathBuf,
    values: std::path::PathBuf,
}

impl LaidOut {
    fn of<'a>(&'a self, chart: &'a Chart) -> At<'a> {
        At { chart: &self.chart, name: &chart.chart, values: &self.values }
    }
}

fn lay_out(session: &Session<'_>, template: &Template, chart: &Chart, values: &str) -> Result<LaidOut, Error> {
    let cannot = |e: std::io::Error| Error::Unavailable(format!("chart {:?} cannot be written: {e}", chart.chart));
    template.write_chart(chart, session.home()).map_err(cannot)?;
    let values = session.write("values.json", values.as_bytes()).map_err(cannot)?;
    Ok(LaidOut { chart: session.home().join(&chart.chart), values })
}

/// Of everything that a release is made of.
fn digest(template: &Template, chart: &Chart, values: &str) -> String {
    let mut hash = Sha256::new();
    for (file, text) in template.chart_files(chart) {
        for part in [file, text] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    hash.update(values.as_bytes());
    hex::encode(hash.finalize())
}

/// Installs the charts of the template as it is now, and removes the releases that it does not have any more.
pub(crate) async fn install(
    environments: &Environments,
    work: &Work,
    step: usize,
    template: &Template,
    limit: Duration,
) -> Result<(), Failure> {
    let name = work.environment();
    let doc = environments.stored(name.as_str()).await?.value;
    let secrets = environments.documents.get::<SecretsDoc>(name.as_str()).await?;
    let secrets = secrets.map(|s| s.value.parameters).unwrap_or_default();
    let parameters = all_parameters(&doc.parameters, &secrets);
    let mut noted = Notes::read(environments, name).await?;
    let kubeconfig = environments.planes.local_kubeconfig(name).await?;
    let _seat = environments.helm.seat(work.say(step, "waits for its turn")).await?;
    let session = environments.helm.session(Some(&kubeconfig), secrets.into_values().collect())?;
    let session = &session;
    let charts: Vec<&Chart> = template.charts(doc.kind).collect();
    let (mut installed, mut removed, mut unchanged) = (0, 0, 0);
    let gone = |r: &Noted| !charts.iter().any(|c| c.name == r.name && c.namespace == r.namespace);
    let leaving: Vec<Noted> = noted.doc.releases.iter().filter(|r| gone(r)).cloned().collect();
    for old in leaving {
        let release = Release { name: &old.name, namespace: &old.namespace };
        telling(work, step, &old.name, |news| async move { session.uninstall(release, limit, &news).await }).await?;
        noted.doc.releases.retain(|r| *r != old);
        noted.write(environments).await?;
        removed += 1;
    }
    for chart in charts {
        let values = environments.chart_values(template, &doc, chart, &parameters).await?;
        let digest = digest(template, chart, &values);
        if noted.digest(chart) == Some(digest.as_str()) {
            unchanged += 1;
            continue;
        }
        let at = lay_out(session, template, chart, &values)?;
        noted.set(chart, String::new());
        noted.write(environments).await?;
        let (release, at) = (release(chart), at.of(chart));
        if is_archive(&chart.chart) {
            // With a network, from here on. It was rendered without one before the job began, but not necessarily here and with these values.
            session.render(release, at, &doc.kubernetes_version.git_version()).await?;
        }
        telling(work, step, &chart.name, |news| async move { session.install(release, at, limit, &news).await })
            .await?;
        noted.set(chart, digest);
        noted.write(environments).await?;
        installed += 1;
    }
    work.done(step, &format!("{installed} installed, {unchanged} unchanged, {removed} removed")).await
}

/// Writes what a command says into the job's log while it runs.
async fn telling<F: Future<Output = Result<(), HelmError>>>(
    work: &Work,
    step: usize,
    about: &str,
    run: impl FnOnce(mpsc::Sender<String>) -> F,
) -> Result<(), Failure> {
    let (send, mut news) = mpsc::channel::<String>(16);
    let tell = async {
        while let Some(line) = news.recv().await {
            if let Err(e) = work.say(step, &format!("{about}: {line}")).await {
                // Whoever sends must not wait for somebody who does not listen any more.
                news.close();
                return Err(e);
            }
        }
        Ok(())
    };
    let (ran, told): (_, Result<(), Failure>) = tokio::join!(run(send), tell);
    // Somebody has cancelled the job, or it is another runner's.
    told?;
    Ok(ran?)
}

/// The noted releases, with the revision they were read at.
struct Notes {
    doc: ReleasesDoc,
    expect: Expect,
}

impl Notes {
    async fn read(environments: &Environments, name: &EnvironmentName) -> Result<Self, Error> {
        Ok(match environments.documents.get::<ReleasesDoc>(name.as_str()).await? {
            Some(stored) => Self { doc: stored.value, expect: Expect::Revision(stored.revision) },
            None => Self { doc: ReleasesDoc { name: name.clone(), releases: Vec::new() }, expect: Expect::Absent },
        })
    }

    fn digest(&self, chart: &Chart) -> Option<&str> {
        let found = self.doc.releases.iter().find(|r| r.name == chart.name && r.namespace == chart.namespace);
        found.map(|r| r.digest.as_str())
    }

    fn set(&mut self, chart: &Chart, digest: String) {
        self.doc.releases.retain(|r| r.name != chart.name || r.namespace != chart.namespace);
        let (name, namespace) = (chart.name.clone(), chart.namespace.clone());
        self.doc.releases.push(Noted { name, namespace, digest });
    }

    async fn write(&mut self, environments: &Environments) -> Result<(), Error> {
        let revisions = environments.documents.transact(vec![put(&self.doc, self.expect)?]).await?;
        self.expect = Expect::Revision(revisions.first().copied().unwrap_or_default());
        Ok(())
    }
}
