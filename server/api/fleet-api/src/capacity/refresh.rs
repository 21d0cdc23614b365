//! Clusters that are quoted again and again are prepared in the background, so that a quote finds them prepared.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use model::ClusterName;
use tokio::time::{Instant, sleep};

use super::known_facts::MAX_AGE;
use super::service::CapacityApi;
use super::worker::AskedFacts;

/// Clusters that are prepared at one time.
const CONCURRENT: usize = 2;

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

impl CapacityApi {
    /// Keeps the clusters that are quoted prepared until no quote asks for them any more.
    pub(super) fn keep_prepared(&self) {
        if !self.threads.known().begin_refresh() {
            return;
        }
        let api = self.clone();
        tokio::spawn(async move {
            while let Some(due) = api.threads.known().due(Instant::now()) {
                let begin = Instant::now();
                stream::iter(due).for_each_concurrent(CONCURRENT, |cluster| api.prepare_again(cluster)).await;
                // The control loops answer for no more than half of the time: what becomes too old meanwhile, quotes ask for.
                sleep(begin.elapsed().max(SHORTEST_PAUSE)).await;
            }
        });
    }

    async fn prepare_again(&self, name: ClusterName) {
        let known = self.threads.known().get(&name);
        match self.ask_facts(name.clone(), known.as_ref(), MAX_AGE).await {
            Ok(cluster) if matches!(cluster.facts, AskedFacts::Changed(_)) => {
                // An error is a panic of a thread, which is logged: it would only come again before the next quote does.
                if self.threads.prepare(cluster).await.is_err() {
                    self.threads.known().leave(&name);
                }
            }
            Ok(cluster) if matches!(cluster.facts, AskedFacts::Prepared) => {}
            // The next quote asks again, and says why there is no answer.
            Ok(_) | Err(_) => self.threads.known().leave(&name),
        }
    }
}
