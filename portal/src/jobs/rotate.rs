//! What giving an environment another certificate authority means, step by step. Each step may be repeated, and between any two of them
//! everything works: the environment can stay there as long as it must.

use std::time::Duration;

use super::{failure::Failure, work::Work};
use crate::{environments::Environments, ports::AuthorityStep};

/// The steps, for people.
pub(crate) const STEPS: [&str; 4] =
    ["make new authority", "publish it to namespaces", "sign with new authority", "drop old authority"];
const ANNOUNCE: usize = 0;
const PUBLISH: usize = 1;
const SWITCH: usize = 2;
const DROP: usize = 3;

/// Carries it out. An overlap of nothing drops the old authority at once.
pub(crate) async fn run(environments: &Environments, work: &Work, overlap: Duration) -> Result<(), Failure> {
    let name = work.environment();
    let at_once = overlap.is_zero();
    for (step, what, said) in [
        (ANNOUNCE, AuthorityStep::Announce { at_once }, "it is trusted beside the old one".to_owned()),
        (PUBLISH, AuthorityStep::Publish, "kube-root-ca.crt holds both".to_owned()),
        (
            SWITCH,
            AuthorityStep::Switch { overlap },
            "kubeconfigs and the certificate that pods see are of the new one".to_owned(),
        ),
    ] {
        if work.begin(step).await? {
            environments.planes.change_authority(name, what).await?;
            work.done(step, &said).await?;
            // A step may be made twice, but not again after one that follows it.
            work.settle().await?;
        }
    }
    if work.begin(DROP).await? {
        if at_once {
            environments.planes.change_authority(name, AuthorityStep::Drop).await?;
            environments.planes.change_authority(name, AuthorityStep::Publish).await?;
            work.done(DROP, "kubeconfigs from before do not work any more").await?;
        } else {
            work.done(DROP, &format!("by itself, in {}", spoken(overlap))).await?;
        }
    }
    Ok(())
}

/// `24 h`, `90 s`.
fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        s if s >= 3600 && s.is_multiple_of(3600) => format!("{} h", s / 3600),
        s if s >= 60 && s.is_multiple_of(60) => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people() {
        for (seconds, text) in [(86_400, "24 h"), (1_800, "30 min"), (90, "90 s"), (3_660, "61 min")] {
            assert_eq!(spoken(Duration::from_secs(seconds)), text);
        }
    }
}
