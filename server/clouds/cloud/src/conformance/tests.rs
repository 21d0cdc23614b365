//! The simulated cloud in process, and clouds that break a rule each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use model::{CapacityType, Text, Timestamp};

use super::*;
use crate::simulated::{CapacityShortage, ClockedCloud, FaultProfile, SimulatedCloud};

/// From launch to a running instance, and a little less than every [`Fixture::advance`].
const BOOT_MS: i64 = 20_000;

struct InProcess {
    cloud: ClockedCloud,
    time: Arc<AtomicI64>,
}

fn faults() -> FaultProfile {
    FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), shutdown_ms: 5_000, ..FaultProfile::default() }
}

impl InProcess {
    fn new(faults: FaultProfile) -> Self {
        let time = Arc::<AtomicI64>::default();
        let clock = Arc::clone(&time);
        let now = move || Timestamp::from_millis(clock.load(Ordering::SeqCst));
        Self { cloud: ClockedCloud::new(SimulatedCloud::new(faults, None), now), time }
    }

    /// With a seed by which the first lost answer is lost after the launch.
    fn losing_after_the_launch() -> Self {
        let loses = |seed: &u64| {
            let faults = FaultProfile { seed: *seed, lost_answers_percent: 100, ..faults() };
            let mut cloud = SimulatedCloud::new(faults, None);
            let _lost = cloud.launch(&order("a"), Timestamp::default());
            cloud.ledger().launched_count() == 1
        };
        let seed = (0..64).find(loses).unwrap();
        Self::new(FaultProfile { seed, ..faults() })
    }
}

fn order(claim: &str) -> LaunchRequest {
    let option = |kind: &str, zone: &str| Override { instance_type: kind.into(), zone: zone.into() };
    LaunchRequest {
        token: Text::from(format!("{claim}-1")),
        cluster: CLUSTER.into(),
        cluster_uid: Text::from(CLUSTER_UID),
        claim: claim.into(),
        pool: "web".into(),
        node_class: Text::from("default"),
        capacity_type: CapacityType::Spot,
        overrides: vec![option("m5.large", "eu-west-1b"), option("c5.large", "eu-west-1a")],
        reservation: None,
        terms: Text::default(),
        template: None,
    }
}

impl Fixture for InProcess {
    fn provider(&self) -> &dyn CloudProvider {
        &self.cloud
    }

    fn order(&self, claim: &str) -> LaunchRequest {
        order(claim)
    }

    fn advance(&self) {
        self.time.fetch_add(BOOT_MS, Ordering::SeqCst);
    }

    async fn launched_count(&self) -> usize {
        self.cloud.cloud().ledger().launched_count()
    }
}

impl FaultyFixture for InProcess {
    fn exhaust(&self, option: &Override) {
        let (instance_type, zone) = (Some(option.instance_type.clone()), Some(option.zone.clone()));
        self.cloud.cloud().faults_mut().shortages.push(CapacityShortage { instance_type, zone, capacity_type: None });
    }

    fn lose_launch_answers(&self, lost: bool) {
        self.cloud.cloud().faults_mut().lost_answers_percent = if lost { 100 } else { 0 };
    }

    fn cut_off(&self) {
        self.cloud.cloud().faults_mut().failed_lists_percent = 100;
    }
}

/// The simulated cloud answers without waiting for anything.
fn run(case: impl Future<Output = ()>) {
    let polled = pin!(case).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()));
}

/// A test for each case.
mod in_process {
    use super::{InProcess, run};

    macro_rules! tests {
        ($($case:ident),* $(,)?) => {
            $(#[test]
            fn $case() {
                run(crate::conformance::$case(&InProcess::losing_after_the_launch()));
            })*
        };
    }

    provider_cases!(tests);
}

/// The message with which a case fails.
fn failure_of(case: impl Future<Output = ()>) -> String {
    let broken = catch_unwind(AssertUnwindSafe(|| run(case))).expect_err("the case must detect what the cloud breaks");
    broken.downcast_ref::<String>().expect("a failed case has a message").clone()
}

#[test]
fn a_cloud_that_ignores_tokens_fails_the_cases_of_tokens() {
    let broken = || InProcess::new(FaultProfile { ignore_tokens: true, ..faults() });
    failure_of(one_token_launches_one_instance_however_often_it_is_sent(&broken()));
    failure_of(another_order_with_the_token_launches_no_second_instance(&broken()));
}

#[test]
fn a_cloud_that_launches_twice_after_a_lost_answer_fails_the_case() {
    let broken = InProcess::losing_after_the_launch();
    broken.cloud.cloud().faults_mut().ignore_tokens = true;
    let message = failure_of(an_order_whose_answer_was_lost_is_repeated_without_a_second_instance(&broken));
    assert!(message.contains("left: 2") && message.contains("right: 1"), "{message}");
}

#[test]
fn a_cloud_whose_listings_lack_instances_fails_the_case_of_listings() {
    let broken = InProcess::new(FaultProfile { lacking_lists_percent: 100, ..faults() });
    failure_of(listings_show_the_live_instances_of_one_cluster_and_of_all(&broken));
}
