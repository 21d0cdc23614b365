//! The gauges of what this replica depends on.

use model::Timestamp;

use super::{Conditions, Dependency, State};
use metrics::{Family, Labels};
use replica::offerings::region_and_account;
use store::lease::Scope;

/// The labels of an account and region.
pub fn scope_labels(scope: &Scope) -> Labels {
    let (region, account) = region_and_account(scope);
    vec![("account", account.to_owned()), ("region", region.to_owned())]
}

impl Conditions {
    /// The gauges at `now`.
    pub fn families(&self, now: Timestamp) -> Vec<Family> {
        let states = self.lock().clone();
        let gauge = |name, help, labels: &'static [&'static str], of: &dyn Fn(&Dependency) -> Option<Labels>| {
            let series = states.iter().filter_map(|(dependency, state)| {
                Some((of(dependency)?, state.failing(dependency, now).is_none().into()))
            });
            Family::gauge(name, help).labelled(labels).all(series)
        };
        let store = self.is_ready(now).into();
        let is_unreachable = |(dependency, state): &(&Dependency, &State)| {
            matches!(dependency, Dependency::Replica(_)) && state.failing(dependency, now).is_some()
        };
        let unreachable = states.iter().filter(is_unreachable).count();
        let ages = states.iter().filter_map(|(dependency, state)| {
            let Dependency::Listing(scope) = dependency else { return None };
            let since = state.worked_at.or(state.max_age.map(|(_, since)| since))?;
            Some((scope_labels(scope), (now.duration_since(since).get() as f64 / 1_000.0).into()))
        });
        vec![
            Family::gauge(
                "fleetwright_store_up",
                "Whether the store answers, takes writes and renews the leases of this server. Without it no decision is made.",
            )
            .with(Vec::new(), store),
            gauge(
                "fleetwright_cloud_up",
                "Whether the cloud answers this server with its credentials in the account and region. Without it nothing is launched \
                 or removed.",
                &["account", "region"],
                &|dependency| matches!(dependency, Dependency::Cloud(_)).then(|| labels(dependency)).flatten(),
            ),
            gauge(
                "fleetwright_cloud_action_allowed",
                "Whether the cloud allows this server the action in the account and region; present once it was tried.",
                &["account", "region", "action"],
                &|dependency| match dependency {
                    Dependency::CloudAction(scope, action) => {
                        let mut labels = scope_labels(scope);
                        labels.push(("action", action.as_str().to_owned()));
                        Some(labels)
                    }
                    _ => None,
                },
            ),
            Family::gauge(
                "fleetwright_cloud_listing_age_seconds",
                "Time since the instances of the account and region were last listed, by whichever replica, or since this server started.",
            )
            .labelled(&["account", "region"])
            .all(ages),
            gauge(
                "fleetwright_interruption_queue_available",
                "Whether the queue of notices of the account and region answers this server.",
                &["account", "region"],
                &|dependency| matches!(dependency, Dependency::Queue(_)).then(|| labels(dependency)).flatten(),
            ),
            Family::gauge(
                "fleetwright_replicas_unreachable",
                "Other replicas on the same database that do not answer this one, and have not ended more than a few minutes ago.",
            )
            .of(unreachable as u64),
        ]
    }
}

fn labels(dependency: &Dependency) -> Option<Labels> {
    dependency.scope().map(scope_labels)
}
