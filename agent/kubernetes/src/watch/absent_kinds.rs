//! One log line for all kinds that the API server does not have.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

/// Kinds reported within this time after the first form one line: all watches begin together.
const COLLECT_TIME: Duration = Duration::from_secs(2);

/// The command that installs the kinds.
const REMEDY: &str = "fleetwright crds | kubectl apply --server-side -f -";

/// Logs the kinds in `names`, such as `nodepools.karpenter.sh`, until the channel closes.
pub(super) async fn log_absent_kinds(mut names: UnboundedReceiver<String>) {
    while let Some(kinds) = next_group(&mut names).await {
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        warn!(kinds, remedy = REMEDY, "kinds not installed; checking periodically");
    }
}

/// The next name and those that follow it within [`COLLECT_TIME`]; `None` when the channel is closed.
async fn next_group(names: &mut UnboundedReceiver<String>) -> Option<BTreeSet<String>> {
    let mut group = BTreeSet::from([names.recv().await?]);
    let deadline = Instant::now() + COLLECT_TIME;
    while let Ok(Some(name)) = timeout_at(deadline, names.recv()).await {
        group.insert(name);
    }
    Some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kinds_that_are_absent_from_the_start_form_one_group_and_a_later_one_another() {
        let (sender, mut names) = tokio::sync::mpsc::unbounded_channel();
        let later = tokio::spawn(async move {
            for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"] {
                sender.send(name.to_owned()).unwrap();
                tokio::time::sleep(Duration::from_millis(900)).await;
            }
            // 1.8 s after the first; the fourth follows at 31.8 s.
            sender.send("nodeoverlays.karpenter.sh".to_owned()).unwrap();
            tokio::time::sleep(Duration::from_secs(30)).await;
            sender.send("ec2nodeclasses.karpenter.k8s.aws".to_owned()).unwrap();
        });
        let group = async |names: &mut UnboundedReceiver<String>| {
            next_group(names).await.map(|group| group.into_iter().collect::<Vec<_>>().join(" "))
        };
        let first = "nodeclaims.karpenter.sh nodeoverlays.karpenter.sh nodepools.karpenter.sh";
        assert_eq!(group(&mut names).await.as_deref(), Some(first));
        assert_eq!(group(&mut names).await.as_deref(), Some("ec2nodeclasses.karpenter.k8s.aws"));
        assert_eq!(group(&mut names).await, None);
        later.await.unwrap();
    }
}
