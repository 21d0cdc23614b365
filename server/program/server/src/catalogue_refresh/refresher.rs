//! Reads the catalogue of an account and region from EC2 and the Pricing API while the server runs.

use std::sync::Arc;

use cloud::catalogue::Snapshot;
use cloud_ec2::Ec2Cloud;
use cloud_ec2::discovery::{CatalogueRefresher, Intervals, Refresh, Used};
use replica::offerings::region_and_account;
use store::clock;
use store::lease::Scope;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::METRICS;
use crate::pools::PublishedCatalogue;
use fleet_api::conditions::{Conditions, Dependency, Failure};
use server_settings::RefreshConfig;

/// Refused values that a log line names.
const NAMED: usize = 3;

/// Refreshes the catalogue of one account and region.
pub(crate) struct Refresher {
    scope: Scope,
    cloud: Arc<Ec2Cloud>,
    published: PublishedCatalogue,
    catalogue: CatalogueRefresher,
    /// What no API tells of the hardware.
    hardware: Snapshot,
    conditions: Arc<Conditions>,
}

/// What a server plans with at the start, and what no API tells.
#[derive(Debug, Clone)]
pub(crate) struct StartCatalogue {
    pub(crate) prices: Snapshot,
    pub(crate) hardware: Snapshot,
}

impl Refresher {
    /// `process` names this run of the replica: replicas read at different times.
    pub(crate) fn new(
        (scope, cloud, published): (Scope, Arc<Ec2Cloud>, PublishedCatalogue),
        start: StartCatalogue,
        config: RefreshConfig,
        (process, conditions): (&str, Arc<Conditions>),
    ) -> Self {
        let RefreshConfig { instance_types, on_demand_prices, spot_prices } = config;
        let intervals = Intervals { instance_types, on_demand_prices, spot_prices };
        let name = format!("{process}/{scope}");
        let catalogue = CatalogueRefresher::new(region_and_account(&scope).0, &name, start.prices, &intervals);
        Self { scope, cloud, published, catalogue, hardware: start.hardware, conditions }
    }

    /// Refreshes until `stop`. Failures end nothing: the last good values stay.
    ///
    /// # Errors
    /// None; the result is that of a task of the server.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        while let Some(due) = self.catalogue.due() {
            let wait = clock::duration(due.duration_since(clock::now()));
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                break;
            }
            let refreshing = self.catalogue.refresh(&self.cloud, &self.hardware);
            let Some(done) = stop.run_until_cancelled(refreshing).await else { break };
            let changed = done.iter().filter(|refresh| self.report(refresh)).count();
            if changed > 0 {
                self.published.publish(self.catalogue.snapshot());
            }
        }
        stop.cancelled().await;
        Ok(())
    }

    /// Logs and counts a read. Returns whether it changed the catalogue.
    fn report(&self, refresh: &Refresh) -> bool {
        let (scope, kind) = (&self.scope, refresh.kind);
        let result = refresh.result.as_ref().map(|_| ()).map_err(|error| Failure::no_answer(error.to_string()));
        self.conditions.report(&Dependency::Catalogue(scope.clone(), kind), result, clock::now());
        match &refresh.result {
            Ok(Used { changed, refused }) => {
                METRICS.count_read(scope, kind, *changed, refused.len(), clock::now());
                if *changed {
                    info!(%scope, kind = kind.as_str(), "catalogue changed");
                }
                if !refused.is_empty() {
                    let named = refused.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
                    warn!(
                        %scope,
                        kind = kind.as_str(),
                        count = refused.len(),
                        values = named,
                        "values of the catalogue refused; the known ones stay"
                    );
                }
                *changed
            }
            Err(_) => {
                METRICS.count_failure(scope, kind);
                false
            }
        }
    }
}
