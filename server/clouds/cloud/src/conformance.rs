//! What every [`CloudProvider`] does, as cases that run on any of them.
//!
//! A [`Fixture`] has a provider and what only the cloud behind it knows: its time, its capacity, and the number of its
//! instances. Every case begins with a fixture of its own and panics when the provider does something else.
//! [`provider_cases`](crate::provider_cases) names all cases, so that each is a test of its own.
//!
//! Reading order: [`Fixture`], `launches` (tokens, lost answers, capacity), `instances` (descriptions, listings,
//! terminations, events), `node_classes`.

mod instances;
mod launches;
mod node_classes;

use std::future::Future;

use model::ClusterName;

use crate::provider::{CloudEvent, CloudProvider, Instance, LaunchRequest, Override, Owner};

pub use instances::*;
pub use launches::*;
pub use node_classes::*;

/// Cluster of the orders of a [`Fixture`].
pub const CLUSTER: &str = "c1";
/// UID of that cluster.
pub const CLUSTER_UID: &str = "uid-1";

/// A provider, and the cloud behind it.
pub trait Fixture {
    /// The provider under test.
    fn provider(&self) -> &dyn CloudProvider;

    /// An order for the NodeClaim `claim` of [`CLUSTER`], with a token of that claim. It has two overrides or more in
    /// different zones; all have capacity, and the cloud launches the first one while it has.
    fn order(&self, claim: &str) -> LaunchRequest;

    /// Advances the time until launched instances run and terminated ones have ended.
    fn advance(&self);

    /// Number of instances that were ever launched, by the cloud's own records.
    fn launched_count(&self) -> impl Future<Output = usize>;
}

/// A fixture whose cloud can fail.
pub trait FaultyFixture: Fixture {
    /// Takes the capacity of `option` away.
    fn exhaust(&self, option: &Override);

    /// Whether launches are executed without an answer from now on. It is called before any other call.
    fn lose_launch_answers(&self, lost: bool);

    /// From now on no listing or lookup gets an answer.
    fn cut_off(&self);
}

/// Calls the macro `each` with the names of all cases.
#[macro_export]
macro_rules! provider_cases {
    ($each:ident) => {
        $each! {
            one_token_launches_one_instance_however_often_it_is_sent,
            another_order_with_the_token_launches_no_second_instance,
            orders_with_tokens_of_their_own_launch_an_instance_each,
            two_clusters_with_the_same_token_have_an_instance_each,
            an_order_whose_answer_was_lost_is_repeated_without_a_second_instance,
            an_order_without_capacity_names_its_overrides_and_launches_nothing,
            unavailable_overrides_are_reported_beside_the_instance,
            an_order_with_too_few_or_too_many_overrides_is_refused,
            an_instance_is_described_as_it_was_ordered,
            an_unknown_instance_is_not_found,
            listings_show_the_live_instances_of_one_cluster_and_of_all,
            a_listing_without_an_answer_is_an_error,
            an_instance_is_terminated_for_its_owner_by_name_and_uid_only,
            a_termination_may_be_repeated_until_the_instance_has_ended,
            an_instance_that_has_ended_is_not_found,
            events_report_what_runs_and_what_has_ended,
            every_condition_of_a_node_class_is_resolved,
            a_node_class_is_resolved_without_an_answer_of_the_cloud,
        }
    };
}

macro_rules! names {
    ($($case:ident),* $(,)?) => { &[$(stringify!($case)),*] };
}

/// Names of all cases.
pub const CASES: &[&str] = provider_cases!(names);

fn cluster() -> ClusterName {
    CLUSTER.into()
}

/// [`CLUSTER`] as the owner of instances.
fn owner(cluster: &ClusterName) -> Owner<'_> {
    Owner { cluster, uid: CLUSTER_UID }
}

/// Launches an instance for `claim`.
async fn launched<F: Fixture>(fixture: &F, claim: &str) -> Instance {
    fixture.provider().launch(&fixture.order(claim)).await.expect("an order that can be launched").instance
}

/// Advances the time, and returns the events until then.
async fn settle<F: Fixture>(fixture: &F) -> Vec<CloudEvent> {
    fixture.advance();
    fixture.provider().events().await.expect("events of a cloud that answers").unwrap_or_default()
}

#[cfg(test)]
mod tests;
