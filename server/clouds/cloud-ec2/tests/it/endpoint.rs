//! The simulated EC2 on loopback, at a time that the test sets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_sdk_ec2::config::SharedHttpClient;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use model::Timestamp;
use simulated_ec2::{
    AccountSettings, Call, Effect, FaultRule, Image, InstanceProfile, PoolCapacity, SecurityGroup, SimulatedEc2,
    SpotRow, Subnet, TemplateSeed, VPC,
};

use super::NOW;

/// From launch to a running instance, in milliseconds.
pub(crate) const BOOT_MS: i64 = 20_000;
/// From termination to its end, in milliseconds.
const SHUTDOWN_MS: i64 = 5_000;

/// A listening endpoint; its task ends with the test's runtime.
pub(crate) struct Endpoint {
    address: SocketAddr,
    ec2: SimulatedEc2,
    time: Arc<AtomicI64>,
}

impl Endpoint {
    /// An account in eu-west-1 with `subnet-a` and `subnet-b`, the launch template `nodes`, and the
    /// image, the group and the profile of [`order`](super::order). In zone b, spot is cheaper for `m5.large` than any other price.
    pub(crate) async fn start() -> Self {
        Self::with(|_| ()).await
    }

    /// As [`Endpoint::start`], for an account that `change` has changed.
    pub(crate) async fn with(change: impl FnOnce(&mut AccountSettings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        Self::of(settings).await
    }

    async fn of(settings: AccountSettings) -> Self {
        let time = Arc::new(AtomicI64::new(NOW.as_millis()));
        let clock = Arc::clone(&time);
        let faults = FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), shutdown_ms: SHUTDOWN_MS, ..FaultProfile::default() };
        let cloud = SimulatedCloud::new(faults, None);
        let cloud = ClockedCloud::new(cloud, move || Timestamp::from_millis(clock.load(Ordering::SeqCst)));
        let ec2 = SimulatedEc2::builder(settings).cloud(Arc::new(cloud)).build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = ec2.clone();
        tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
        Self { address, ec2, time }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.ec2.calls()
    }

    /// Parameters of the calls of `action` so far.
    pub(crate) fn requests(&self, action: &str) -> Vec<BTreeMap<String, String>> {
        self.ec2.calls_of(action).into_iter().map(|call| call.parameters).collect()
    }

    pub(crate) fn launched_count(&self) -> usize {
        self.ec2.cloud().cloud().ledger().launched_count()
    }

    pub(crate) fn exhaust(&self, instance_type: &str, zone: &str) {
        self.ec2.change_faults(|faults| faults.pools.push(PoolCapacity::none(instance_type, zone)));
    }

    /// Makes the next call of `action` fail, after `skip` calls that do not.
    pub(crate) fn fail(&self, action: &str, skip: u64, code: &str) {
        self.ec2.add_fault(FaultRule::once_after(action, skip, Effect::error(code)));
    }

    /// Whether calls of `action` are executed without an answer from now on.
    pub(crate) fn lose_answers(&self, action: &str, lost: bool) {
        let rule = FaultRule::always(action, Effect::CutAfter);
        self.ec2.change_faults(|faults| faults.rules = if lost { vec![rule] } else { Vec::new() });
    }

    /// From now on no call is executed or answered.
    pub(crate) fn cut_off(&self) {
        self.ec2.add_fault(FaultRule::always("*", Effect::CutBefore));
    }

    /// Forgets client tokens, as EC2 does after a while.
    pub(crate) fn ignore_tokens(&self) {
        self.ec2.cloud().cloud().faults_mut().ignore_tokens = true;
    }

    pub(crate) fn change_account(&self, change: impl FnOnce(&mut AccountSettings)) {
        self.ec2.change_account(change);
    }

    pub(crate) fn revoke_sessions(&self) {
        self.ec2.revoke_sessions();
    }

    /// Sets the page size of listings.
    pub(crate) fn page_by(&self, entries: usize) {
        self.ec2.change_faults(|faults| faults.page_sizes.extend([("DescribeInstances".to_owned(), entries)]));
    }

    pub(crate) fn instance_profiles(&self) -> BTreeMap<String, InstanceProfile> {
        self.ec2.instance_profiles()
    }

    pub(crate) fn wait(&self, duration: Duration) {
        self.time.fetch_add(i64::try_from(duration.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Advances the time until all instances have booted.
    pub(crate) fn boot(&self) {
        self.time.fetch_add(BOOT_MS, Ordering::SeqCst);
    }

    /// Terminates an instance, and advances the time until its end.
    pub(crate) fn end(&self, id: &str) {
        let cloud = self.ec2.cloud();
        assert!(cloud.cloud().shut_down(id, cloud.now()), "{id}");
        self.time.fetch_add(SHUTDOWN_MS, Ordering::SeqCst);
    }
}

fn settings() -> AccountSettings {
    let mut settings = AccountSettings::new("eu-west-1", "c1");
    let subnet = |(id, zone, third): (&str, &str, u8)| Subnet {
        id: id.to_owned(),
        zone: zone.to_owned(),
        vpc: VPC.to_owned(),
        cidr: ([10, 0, third, 0], 24),
        tags: BTreeMap::new(),
    };
    settings.subnets = [("subnet-a", "eu-west-1a", 0), ("subnet-b", "eu-west-1b", 1)].map(subnet).into();
    let image = settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().clone();
    let data = [("ImageId".to_owned(), image.id.clone())].into();
    settings.images.push(Image { id: "ami-nodes".to_owned(), name: "nodes".to_owned(), ..image });
    let group =
        SecurityGroup { id: "sg-1".to_owned(), name: "nodes".to_owned(), ..settings.security_groups[0].clone() };
    settings.security_groups.push(group);
    settings.instance_profiles.insert("c1_nodes".to_owned(), "KarpenterNodeRole-c1".to_owned());
    settings.launch_templates = vec![TemplateSeed { name: "nodes".to_owned(), data }];
    settings.instance_profiles.insert("nodes".to_owned(), "KarpenterNodeRole-c1".to_owned());
    settings.catalogue.spot.retain(|row| row.instance_type != "m5.large" || row.zone != "eu-west-1b");
    settings.catalogue.spot.push(SpotRow::linux("m5.large", "eu-west-1b", "0.001"));
    settings
}

/// The HTTP client of the SDKs.
pub(crate) fn http_client() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
}
