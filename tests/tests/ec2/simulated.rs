//! The simulated EC2 on loopback, at a time that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cloud::conformance::{CLUSTER, FaultyFixture, Fixture};
use cloud::provider::{CloudProvider, LaunchRequest, Override};
use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use cloud_ec2::Ec2Cloud;
use model::{Millis, Timestamp};
use simulated_ec2::{AccountSettings, Effect, FaultRule, PoolCapacity, SimulatedEc2, SpotRow};

use super::account::{REGION, Resources, now, provider, set_time};
use crate::serve_endpoint;

/// From launch to a running instance, in milliseconds.
const BOOT_MS: i64 = 20_000;

/// An account with a provider. The endpoint's task ends with the test's runtime.
struct Simulated {
    ec2: SimulatedEc2,
    /// The endpoint's clock, which is that of the test.
    time: Arc<AtomicI64>,
    provider: Ec2Cloud,
    resources: Resources,
}

impl Simulated {
    async fn start() -> Self {
        let settings = settings();
        let resources = Resources::of(&settings);
        let time = Arc::new(AtomicI64::new(now().as_millis()));
        let clock = Arc::clone(&time);
        let faults = FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), shutdown_ms: 5_000, ..FaultProfile::default() };
        let cloud = SimulatedCloud::new(faults, None);
        let cloud = ClockedCloud::new(cloud, move || Timestamp::from_millis(clock.load(Ordering::SeqCst)));
        let ec2 = SimulatedEc2::builder(settings).cloud(Arc::new(cloud)).build();
        let endpoint = serve_endpoint(&ec2).await;
        Self { ec2, time, provider: provider(endpoint), resources }
    }
}

/// In zone b, spot is cheaper for `m5.large` than any other price, so that fleets choose it first.
fn settings() -> AccountSettings {
    let mut settings = AccountSettings::new(REGION, CLUSTER);
    settings.instance_profiles.insert("nodes".to_owned(), format!("KarpenterNodeRole-{CLUSTER}"));
    settings.catalogue.spot.retain(|row| row.instance_type != "m5.large" || row.zone != "eu-west-1b");
    settings.catalogue.spot.push(SpotRow::linux("m5.large", "eu-west-1b", "0.001"));
    settings
}

impl Fixture for Simulated {
    fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    fn order(&self, claim: &str) -> LaunchRequest {
        self.resources.order(claim)
    }

    fn advance(&self) {
        set_time(now() + Millis::new(BOOT_MS));
        self.time.store(now().as_millis(), Ordering::SeqCst);
    }

    async fn launched_count(&self) -> usize {
        self.ec2.cloud().cloud().ledger().launched_count()
    }
}

impl FaultyFixture for Simulated {
    fn exhaust(&self, option: &Override) {
        self.ec2.change_faults(|faults| faults.pools.push(PoolCapacity::none(&option.instance_type, &option.zone)));
    }

    fn lose_launch_answers(&self, lost: bool) {
        let rule = FaultRule::always("CreateFleet", Effect::CutAfter);
        self.ec2.change_faults(|faults| faults.rules = if lost { vec![rule] } else { Vec::new() });
    }

    fn cut_off(&self) {
        self.ec2.add_fault(FaultRule::always("*", Effect::CutBefore));
    }
}

macro_rules! tests {
    ($($case:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $case() {
            cloud::conformance::$case(&Simulated::start().await).await;
        })*
    };
}

cloud::provider_cases!(tests);
