//! The behaviour that every provider must have, in sessions that the policies in `deploy/aws` confine.

use std::cell::Cell;
use std::time::Duration;

use cloud::conformance::{FaultyFixture, Fixture};
use cloud::provider::{CloudProvider, LaunchRequest, Override};
use cloud_ec2::Ec2Cloud;
use model::{Millis, Timestamp};
use serde_json::json;
use simulated_ec2::AccountSettings;

use super::endpoint::{BOOT_MS, Endpoint};
use super::roles::{roles_of, with_roles};
use super::{NOW, adapter_by, order};

thread_local! {
    /// The provider's clock is a function without state, and a test with its tasks runs on one thread.
    static TIME: Cell<Timestamp> = const { Cell::new(NOW) };
}

struct Confined {
    ec2: Endpoint,
    provider: Ec2Cloud,
}

impl Confined {
    async fn start() -> Self {
        let ec2 = Endpoint::with(add_roles).await;
        let provider = adapter_by(with_roles(ec2.url()), || TIME.get());
        Self { ec2, provider }
    }
}

/// Cluster c2 of the cases has the EC2NodeClass of c1, so its role may pass the node role of c1 too.
fn add_roles(account: &mut AccountSettings) {
    let mut roles = roles_of(&["c1", "c2"]);
    let c2 = roles.iter_mut().find(|role| role.name == "fleetwright-c2").unwrap();
    let pass = json!({
        "Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::*:role/KarpenterNodeRole-c1"
    });
    c2.policies.push(json!({ "Statement": pass }));
    account.roles.extend(roles);
}

impl Fixture for Confined {
    fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    fn order(&self, claim: &str) -> LaunchRequest {
        order(claim)
    }

    fn advance(&self) {
        TIME.set(TIME.get() + Millis::new(BOOT_MS));
        self.ec2.wait(Duration::from_millis(BOOT_MS.unsigned_abs()));
    }

    async fn launched_count(&self) -> usize {
        self.ec2.launched_count()
    }
}

impl FaultyFixture for Confined {
    fn exhaust(&self, option: &Override) {
        self.ec2.exhaust(&option.instance_type, &option.zone);
    }

    fn lose_launch_answers(&self, lost: bool) {
        self.ec2.lose_answers("CreateFleet", lost);
    }

    fn cut_off(&self) {
        self.ec2.cut_off();
    }
}

macro_rules! tests {
    ($($case:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $case() {
            cloud::conformance::$case(&Confined::start().await).await;
        })*
    };
}

cloud::provider_cases!(tests);
