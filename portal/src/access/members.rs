//! Who may be named as a member, and by whom.

use vctl_api::rest::{Member, MemberKind};

use super::{
    check_escalation,
    decide::Scope,
    policy::{Permit, Policy},
    role,
};
use crate::error::{Error, nearest};

/// Checks a list of members: their roles and teams exist, and who names new ones has what they get.
///
/// # Errors
/// [`Error::Invalid`] for a role or team that there is not; [`Error::Forbidden`] for giving more than one has.
pub(super) fn check(
    permit: &Permit,
    policy: &Policy,
    scope: Scope<'_>,
    before: &[Member],
    after: &[Member],
) -> Result<(), Error> {
    for (i, member) in after.iter().enumerate() {
        let permissions = policy.role(&member.role).ok_or_else(|| Error::Invalid {
            kind: "unknown-role",
            detail: format!("there is no role {:?}; `vctl role list` shows those there are", member.role),
            nearest: nearest(&member.role, policy.role_names()),
        })?;
        if scope != Scope::Platform && role::built_in(&member.role).is_some_and(|r| r.platform) {
            return Err(Error::invalid(
                "invalid-role",
                format!(
                    "role {:?} is for the platform as a whole, not for a project: take viewer to admin",
                    member.role
                ),
            ));
        }
        if member.name.is_empty() || member.name.chars().count() > 256 || member.name.chars().any(char::is_control) {
            return Err(Error::invalid("invalid-member", "a member needs a name of 1 to 256 characters"));
        }
        if member.kind == MemberKind::Team && !policy.teams.contains_key(&member.name) {
            return Err(Error::Invalid {
                kind: "unknown-team",
                detail: format!("there is no team {:?}: make it with `vctl team set {}`", member.name, member.name),
                nearest: nearest(&member.name, policy.teams.keys().map(String::as_str)),
            });
        }
        if after[..i].contains(member) {
            return Err(Error::invalid(
                "invalid-member",
                format!("{:?} is named twice with role {:?}", member.name, member.role),
            ));
        }
        if !before.contains(member) {
            check_escalation(permit, scope, permissions)?;
        }
    }
    Ok(())
}
