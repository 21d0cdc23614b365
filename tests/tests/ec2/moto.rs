//! moto as the cloud: an EC2 that this project did not write. It judges what it knows, and the rest is a list with
//! reasons.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use cloud::conformance::{self, CASES, Fixture};
use cloud::provider::{CloudProvider, LaunchRequest};
use cloud_ec2::Ec2Cloud;
use model::Millis;

use super::account::{Resources, now, provider, set_time};
use super::moto_server::MotoServer;
use super::report;

/// More than the interval of the provider's listings.
const STEP: Millis = Millis::from_secs(20);

/// Cases that moto 5.2.5 cannot judge, and why.
const NOT_JUDGED: [(&str, &str); 8] = [
    ("one_token_launches_one_instance_however_often_it_is_sent", "CreateFleet ignores client tokens"),
    ("another_order_with_the_token_launches_no_second_instance", "CreateFleet ignores client tokens"),
    (
        "an_order_whose_answer_was_lost_is_repeated_without_a_second_instance",
        "no answer can be lost, and CreateFleet ignores client tokens",
    ),
    (
        "an_order_without_capacity_names_its_overrides_and_launches_nothing",
        "every pool has capacity, and fleets have no errors",
    ),
    ("unavailable_overrides_are_reported_beside_the_instance", "every pool has capacity, and fleets have no errors"),
    ("a_listing_without_an_answer_is_an_error", "no answer can be lost"),
    ("a_termination_may_be_repeated_until_the_instance_has_ended", "an instance is terminated at once"),
    ("a_node_class_is_resolved_without_an_answer_of_the_cloud", "no answer can be lost"),
];

/// Calls the macro `each` with the cases that moto judges.
macro_rules! judged_cases {
    ($each:ident) => {
        $each! {
            orders_with_tokens_of_their_own_launch_an_instance_each,
            two_clusters_with_the_same_token_have_an_instance_each,
            an_order_with_too_few_or_too_many_overrides_is_refused,
            an_instance_is_described_as_it_was_ordered,
            an_unknown_instance_is_not_found,
            listings_show_the_live_instances_of_one_cluster_and_of_all,
            an_instance_is_terminated_for_its_owner_by_name_and_uid_only,
            an_instance_that_has_ended_is_not_found,
            events_report_what_runs_and_what_has_ended,
            every_condition_of_a_node_class_is_resolved,
        }
    };
}

/// Calls the macro `each` with cases of [`NOT_JUDGED`] that need no fault.
macro_rules! failing_cases {
    ($each:ident) => {
        $each! {
            one_token_launches_one_instance_however_often_it_is_sent,
            another_order_with_the_token_launches_no_second_instance,
            a_termination_may_be_repeated_until_the_instance_has_ended,
        }
    };
}

struct Moto<'s> {
    server: &'s MotoServer,
    provider: Ec2Cloud,
    resources: Resources,
}

impl<'s> Moto<'s> {
    async fn empty(server: &'s MotoServer) -> Self {
        server.reset().await;
        // moto checks neither image nor security group nor instance profile.
        let resources = Resources {
            subnet_a: subnet(server, "eu-west-1a").await,
            subnet_b: subnet(server, "eu-west-1b").await,
            image: "ami-0123456789abcdef0".to_owned(),
            security_group: "sg-0123456789abcdef0".to_owned(),
            instance_profile: "nodes".to_owned(),
        };
        Self { server, provider: provider(server.url()), resources }
    }
}

/// Id of the default subnet of `zone`.
async fn subnet(server: &MotoServer, zone: &str) -> String {
    let form = format!("Action=DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1={zone}");
    let answer = server.ec2(&form).await;
    let id = answer.split("<subnetId>").nth(1).and_then(|rest| rest.split('<').next());
    id.unwrap_or_else(|| panic!("no subnet in {zone}: {answer}")).to_owned()
}

impl Fixture for Moto<'_> {
    fn provider(&self) -> &dyn CloudProvider {
        &self.provider
    }

    fn order(&self, claim: &str) -> LaunchRequest {
        self.resources.order(claim)
    }

    /// Instances run and end at once: only the interval of listings has to pass.
    fn advance(&self) {
        set_time(now() + STEP);
    }

    /// moto describes terminated instances until it is reset.
    async fn launched_count(&self) -> usize {
        self.server.ec2("Action=DescribeInstances").await.matches("<instanceId>").count()
    }
}

async fn outcome(case: impl Future<Output = ()>) -> Result<(), String> {
    let mut case = pin!(case);
    let ended = std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| case.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    });
    ended.await.map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().map_or("a panic without a message", |message| *message).to_owned(),
    })
}

/// A run of a case with an empty account, and how it fails. Boxed: all cases together do not fit on a test's stack.
type Run<'s> = Pin<Box<dyn Future<Output = Result<(), String>> + 's>>;

macro_rules! runs {
    ($($case:ident),* $(,)?) => {
        &[$((stringify!($case), |server| {
            Box::pin(async { outcome(conformance::$case(&Moto::empty(server).await)).await })
        })),*]
    };
}

/// Name of a case, and how it runs.
type Case = (&'static str, fn(&MotoServer) -> Run<'_>);

const JUDGED: &[Case] = judged_cases!(runs);

/// Cases of [`NOT_JUDGED`] that need no fault. moto fails them, else it could judge them.
const FAILING: &[Case] = failing_cases!(runs);

#[test]
fn every_case_is_judged_by_moto_or_has_a_reason() {
    let listed = NOT_JUDGED.map(|(case, _)| case);
    let all: Vec<&str> = JUDGED.iter().map(|(case, _)| *case).chain(listed).collect();
    assert_eq!(all.iter().copied().collect::<BTreeSet<_>>(), CASES.iter().copied().collect());
    assert_eq!(all.len(), CASES.len(), "no case is judged and on the list");
    for (case, _) in FAILING {
        assert!(listed.contains(case), "{case}");
    }
}

#[tokio::test]
async fn the_provider_conforms_on_moto() {
    for (case, why) in NOT_JUDGED {
        report(format_args!("SKIPPED {case} on moto: {why}"));
    }
    let server = match MotoServer::start().await {
        Ok(server) => server,
        Err(why) => return report(format_args!("SKIPPED the_provider_conforms_on_moto: {why}")),
    };
    let mut failed = Vec::new();
    for (case, run) in JUDGED {
        failed.extend(run(&server).await.err().map(|why| format!("{case}: {why}")));
    }
    assert!(failed.is_empty(), "{failed:#?}");
    for (case, run) in FAILING {
        assert!(run(&server).await.is_err(), "moto can judge {case}: take it off the list");
    }
}
