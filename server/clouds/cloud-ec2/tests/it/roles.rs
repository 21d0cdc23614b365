//! Sessions of roles: who calls with what, what the policies in `deploy/aws` confine a cluster to, and roles that cannot
//! be assumed. The endpoint enforces the policies.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use aws_config::SdkConfig;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{
    FleetLaunchTemplateConfigRequest, FleetLaunchTemplateOverridesRequest, FleetLaunchTemplateSpecificationRequest,
    FleetType, InstanceType, RequestLaunchTemplateData, ResourceType, TagSpecification,
    TargetCapacitySpecificationRequest,
};
use cloud::provider::{CloudError, CloudProvider, LaunchRequest, Owner};
use cloud_ec2::nodeclass::{INSTANCE_PROFILE_READY, SUBNETS_READY, VALIDATION_SUCCEEDED};
use cloud_ec2::{Ec2Cloud, Roles, Settings};
use model::node_class::{InstanceIdentity, NodeClassQuery};
use model::{ClusterName, Millis, Timestamp};
use simulated_ec2::{Call, Outcome, Role};

use super::endpoint::{Endpoint, http_client};
use super::node_class::{by_tag, condition, query_of};
use super::{NOW, adapter, adapter_by, order, settings};

/// External id of the roles of [`roles_of`].
const EXTERNAL_ID: &str = "fleet-7";

/// `NOW` and the minutes that a test sets, as a clock of that test alone.
macro_rules! clock {
    ($minutes:ident, $clock:ident) => {
        static $minutes: AtomicI64 = AtomicI64::new(0);
        fn $clock() -> Timestamp {
            NOW + Millis::from_mins($minutes.load(Ordering::SeqCst))
        }
    };
}

fn arn(role: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{role}")
}

fn policy(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/aws").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The role of the account and one for each cluster, with the policies in `deploy/aws`.
pub(crate) fn roles_of(clusters: &[&str]) -> Vec<Role> {
    let role = |name: String, policies| Role { external_id: Some(EXTERNAL_ID.to_owned()), policies, ..Role::new(name) };
    let of_cluster = |name: &&str| role(format!("fleetwright-{name}"), vec![policy("cluster-role-policy.json")]);
    let mut roles: Vec<Role> = clusters.iter().map(of_cluster).collect();
    roles.push(role("fleetwright-account".to_owned(), vec![policy("account-role-policy.json")]));
    roles
}

pub(crate) fn with_roles(endpoint: String) -> Settings {
    let roles = Roles {
        account: Some(arn("fleetwright-account")),
        cluster: Some(arn("fleetwright-{cluster}")),
        external_id: Some(EXTERNAL_ID.to_owned()),
    };
    Settings { roles, ..settings(endpoint) }
}

/// An account with [`roles_of`] the clusters c1 and c2, and for each its node role and instance profile.
async fn start() -> Endpoint {
    Endpoint::with(|account| {
        account.roles.extend(roles_of(&["c1", "c2"]));
        account.roles.push(Role::new("KarpenterNodeRole-c2"));
        account.instance_profiles.insert("c2_nodes".to_owned(), "KarpenterNodeRole-c2".to_owned());
    })
    .await
}

async fn connect() -> (Endpoint, Ec2Cloud) {
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), || NOW);
    (ec2, cloud)
}

/// An order of `cluster`, whose EC2NodeClass has the instance profile `profile`.
fn order_of(cluster: &str, claim: &str, profile: &str) -> LaunchRequest {
    let mut order = order(claim);
    (order.cluster, order.cluster_uid) = (cluster.into(), format!("uid-{cluster}").into());
    let mut input = super::template_input();
    Arc::make_mut(&mut input.status).instance_profile = Some(profile.into());
    LaunchRequest { template: Some(Arc::new(input)), ..order }
}

fn of_action(ec2: &Endpoint, action: &str) -> Vec<Call> {
    ec2.calls().into_iter().filter(|call| call.action == action).collect()
}

/// Role of a call, and the cluster in its session's tags.
fn session(call: &Call) -> (&str, &str) {
    let cluster = call.session_tags.get("eks-cluster-name");
    (call.role.as_deref().unwrap_or_default(), cluster.map_or("", String::as_str))
}

fn refused(result: Result<impl std::fmt::Debug, CloudError>) -> (String, String, String) {
    match result.unwrap_err() {
        CloudError::Refused { operation, code, message } => (operation.to_string(), code.to_string(), message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn two_clusters_launch_and_terminate_in_two_sessions() {
    let (ec2, cloud) = connect().await;
    for name in ["c1", "c2"] {
        let launched = cloud.launch(&order_of(name, "a", &format!("{name}_nodes"))).await.unwrap().instance;
        let (cluster, uid) = (ClusterName::from(name), format!("uid-{name}"));
        cloud.terminate(&launched.id, Owner { cluster: &cluster, uid: &uid }).await.unwrap();
    }
    for action in ["CreateLaunchTemplate", "CreateFleet", "TerminateInstances"] {
        let calls = of_action(&ec2, action);
        let made: Vec<_> = calls.iter().map(session).collect();
        assert_eq!(made, [("fleetwright-c1", "c1"), ("fleetwright-c2", "c2")], "{action}");
    }
    let lookups = of_action(&ec2, "DescribeInstances");
    assert!(lookups.iter().all(|call| session(call) == ("fleetwright-account", "")), "{lookups:?}");
    let assumed = of_action(&ec2, "AssumeRole");
    assert!(assumed.iter().all(|call| call.caller == "AKIDTEST"));
    let names: Vec<_> = assumed.iter().map(|call| call.parameters["RoleSessionName"].as_str()).collect();
    assert_eq!(names, ["fleetwright-c1", "fleetwright", "fleetwright-c2"]);
}

#[tokio::test]
async fn without_roles_of_clusters_they_have_sessions_of_the_accounts_role() {
    let ec2 = start().await;
    ec2.change_account(|account| {
        let role = account.roles.iter_mut().find(|role| role.name == "fleetwright-account").unwrap();
        role.policies.push(policy("cluster-role-policy.json"));
    });
    let mut settings = with_roles(ec2.url());
    settings.roles.cluster = None;
    let cloud = adapter_by(settings, || NOW);
    cloud.launch(&order_of("c2", "a", "c2_nodes")).await.unwrap();
    cloud.list_all().await.unwrap();
    assert_eq!(session(&of_action(&ec2, "CreateFleet")[0]), ("fleetwright-account", "c2"));
    assert_eq!(session(&of_action(&ec2, "DescribeInstances")[0]), ("fleetwright-account", ""));
}

#[tokio::test]
async fn without_roles_all_calls_have_the_servers_own_credentials() {
    let ec2 = start().await;
    let cloud = adapter(ec2.url());
    cloud.launch(&order("a")).await.unwrap();
    assert!(ec2.calls().iter().all(|call| call.caller == "AKIDTEST" && call.role.is_none()));
    assert!(of_action(&ec2, "AssumeRole").is_empty());
}

#[tokio::test]
async fn a_node_class_with_the_profile_of_another_cluster_launches_nothing() {
    let (ec2, cloud) = connect().await;
    let (operation, code, message) = refused(cloud.launch(&order_of("c1", "a", "c2_nodes")).await);
    assert_eq!((operation.as_str(), code.as_str()), ("CreateFleet", "UnauthorizedOperation"));
    let expected = "the credentials of the role arn:aws:iam::123456789012:role/fleetwright-c1 for cluster c1 lack a right \
                    for this launch, or EC2NodeClass default names what is not for this cluster (";
    assert!(message.starts_with(expected), "{message}");
    assert!(
        message.contains("iam:PassRole on resource: arn:aws:iam::123456789012:role/KarpenterNodeRole-c2"),
        "{message}"
    );
    assert_eq!(ec2.launched_count(), 0);
}

/// The guard is the session of the cluster: with the server's own credentials, the same order gets the other's role.
#[tokio::test]
async fn sabotage_without_sessions_an_instance_gets_the_role_of_another_cluster() {
    let ec2 = start().await;
    adapter(ec2.url()).launch(&order_of("c1", "a", "c2_nodes")).await.unwrap();
    assert_eq!(ec2.launched_count(), 1);
}

#[tokio::test]
async fn a_node_class_with_the_role_of_another_cluster_gets_no_profile_with_it() {
    let (ec2, cloud) = connect().await;
    let mut query = query_of("c1");
    Arc::make_mut(&mut query.spec).identity = InstanceIdentity::Role("KarpenterNodeRole-c2".into());
    let resolved = cloud.resolve_node_class(&query).await;
    let (kind, reason, message) = condition(&resolved, INSTANCE_PROFILE_READY);
    assert_eq!((kind, reason), ("unknown", "AccessDenied"));
    assert!(
        message.contains("the role arn:aws:iam::123456789012:role/fleetwright-c1 for cluster c1 lack"),
        "{message}"
    );
    assert!(
        message.contains("iam:PassRole on resource: arn:aws:iam::123456789012:role/KarpenterNodeRole-c2"),
        "{message}"
    );
    let made = ec2.instance_profiles();
    assert!(
        made.iter()
            .all(|(name, profile)| name == "c2_nodes" || profile.role.as_deref() != Some("KarpenterNodeRole-c2"))
    );
    Arc::make_mut(&mut query.spec).identity = InstanceIdentity::Role("KarpenterNodeRole-c1".into());
    let resolved = cloud.resolve_node_class(&query).await;
    assert_eq!(condition(&resolved, INSTANCE_PROFILE_READY).0, "met");
}

const DENIED: Option<&str> = Some("UnauthorizedOperation");

fn code<T, E: ProvideErrorMetadata, R>(result: Result<T, SdkError<E, R>>) -> Option<String> {
    result.err()?.as_service_error()?.code().map(str::to_owned)
}

/// Clients in a session of the cluster, as a server would have it whose own check of tags were off.
async fn clients_of(ec2: &Endpoint, cluster: &str) -> (aws_sdk_ec2::Client, aws_sdk_iam::Client) {
    let config = |credentials| {
        let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).http_client(http_client());
        let config = config.region(Region::new("eu-west-1")).retry_config(RetryConfig::disabled());
        config.endpoint_url(ec2.url()).credentials_provider(SharedCredentialsProvider::new(credentials)).build()
    };
    let sts = aws_sdk_sts::Client::new(&config(Credentials::new("AKIDTEST", "secret", None, None, "test")));
    let tag = aws_sdk_sts::types::Tag::builder().key("eks-cluster-name").value(cluster).build().unwrap();
    let call = sts.assume_role().role_arn(arn(&format!("fleetwright-{cluster}"))).role_session_name("test");
    let made = call.external_id(EXTERNAL_ID).tags(tag).send().await.unwrap().credentials.unwrap();
    let token = Some(made.session_token.clone());
    let config = config(Credentials::new(made.access_key_id(), made.secret_access_key(), token, None, "test"));
    (aws_sdk_ec2::Client::new(&config), aws_sdk_iam::Client::new(&config))
}

#[tokio::test]
async fn the_session_of_a_cluster_can_end_and_use_nothing_of_another() {
    let (ec2, cloud) = connect().await;
    let of_c2 = cloud.launch(&order_of("c2", "a", "c2_nodes")).await.unwrap().instance;
    let (c1, _) = clients_of(&ec2, "c1").await;
    assert_eq!(code(c1.terminate_instances().instance_ids(&*of_c2.id).send().await).as_deref(), DENIED);
    let template = of_action(&ec2, "CreateLaunchTemplate")[0].parameters["LaunchTemplateName"].clone();
    assert_eq!(code(c1.delete_launch_template().launch_template_name(&template).send().await).as_deref(), DENIED);
    let tag = aws_sdk_ec2::types::Tag::builder().key("fleetwright.dev/cluster").value("c1").build();
    assert_eq!(code(c1.create_tags().resources(&*of_c2.id).tags(tag).send().await).as_deref(), DENIED);
    let (c2, _) = clients_of(&ec2, "c2").await;
    c2.terminate_instances().instance_ids(&*of_c2.id).send().await.unwrap();
}

#[tokio::test]
async fn the_session_of_a_cluster_launches_only_with_its_own_templates_and_tags() {
    let (ec2, cloud) = connect().await;
    for name in ["c1", "c2"] {
        cloud.launch(&order_of(name, "a", &format!("{name}_nodes"))).await.unwrap();
    }
    let made = of_action(&ec2, "CreateLaunchTemplate");
    let [own, other] = [0, 1].map(|at: usize| made[at].parameters["LaunchTemplateName"].clone());
    let (c1, _) = clients_of(&ec2, "c1").await;
    let fleet = |template: &str, tags: Option<TagSpecification>| {
        let template = FleetLaunchTemplateSpecificationRequest::builder().launch_template_name(template).version("1");
        let option = FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(InstanceType::M5Large)
            .subnet_id("subnet-a")
            .build();
        let config = FleetLaunchTemplateConfigRequest::builder()
            .launch_template_specification(template.build())
            .overrides(option);
        let one = TargetCapacitySpecificationRequest::builder().total_target_capacity(1).build();
        let call = c1.create_fleet().r#type(FleetType::Instant).launch_template_configs(config.build());
        call.target_capacity_specification(one).set_tag_specifications(tags.map(|tags| vec![tags])).send()
    };
    let of_fleet = |cluster: &str| Some(tags(ResourceType::Fleet, cluster));
    assert_eq!(code(fleet(&other, of_fleet("c1")).await).as_deref(), DENIED);
    assert_eq!(code(fleet(&own, of_fleet("c2")).await).as_deref(), DENIED);
    assert_eq!(code(fleet(&own, None).await).as_deref(), DENIED);
    // The fleet may be made, and its instance has no tags.
    let answer = fleet(&own, of_fleet("c1")).await.unwrap();
    assert_eq!(answer.errors()[0].error_code(), DENIED);
    assert_eq!(ec2.launched_count(), 2);
    let data = RequestLaunchTemplateData::builder().image_id("ami-nodes").build();
    let template =
        |name: &str| c1.create_launch_template().launch_template_name(name).launch_template_data(data.clone());
    assert_eq!(code(template("untagged").send().await).as_deref(), DENIED);
    let of_template = |cluster: &str| tags(ResourceType::LaunchTemplate, cluster);
    assert_eq!(code(template("of-c2").tag_specifications(of_template("c2")).send().await).as_deref(), DENIED);
    assert_eq!(code(template("of-c1").tag_specifications(of_template("c1")).send().await), None);
}

/// The tags that policies look at.
fn tags(kind: ResourceType, cluster: &str) -> TagSpecification {
    let pairs =
        [("fleetwright.dev/managed", "true"), ("fleetwright.dev/cluster", cluster), ("eks:eks-cluster-name", cluster)];
    let tags = pairs.map(|(key, value)| aws_sdk_ec2::types::Tag::builder().key(key).value(value).build());
    TagSpecification::builder().resource_type(kind).set_tags(Some(tags.into())).build()
}

#[tokio::test]
async fn the_session_of_a_cluster_changes_no_profile_of_another() {
    let (ec2, cloud) = connect().await;
    let mut query = query_of("c2");
    Arc::make_mut(&mut query.spec).identity = InstanceIdentity::Role("KarpenterNodeRole-c2".into());
    let of_c2 = cloud.resolve_node_class(&query).await.status.instance_profile.unwrap();
    let path = ec2.instance_profiles()[&*of_c2].path.clone();
    let (_, c1) = clients_of(&ec2, "c1").await;
    let denied = Some("AccessDenied");
    let role = "KarpenterNodeRole-c1";
    assert_eq!(
        code(c1.add_role_to_instance_profile().instance_profile_name(&*of_c2).role_name(role).send().await).as_deref(),
        denied
    );
    let tag = |key: &str, value: &str| aws_sdk_iam::types::Tag::builder().key(key).value(value).build().unwrap();
    let cluster = tag("eks:eks-cluster-name", "c1");
    let tagged = c1.tag_instance_profile().instance_profile_name(&*of_c2).tags(cluster.clone()).send().await;
    assert_eq!(code(tagged).as_deref(), denied);
    let create = |path: &str, cluster: &aws_sdk_iam::types::Tag| {
        let class = tag("karpenter.k8s.aws/ec2nodeclass", "default");
        c1.create_instance_profile().instance_profile_name("made").path(path).tags(cluster.clone()).tags(class).send()
    };
    assert_eq!(code(create(&path, &cluster).await).as_deref(), denied);
    let own = path.replace("/c2/", "/c1/");
    assert_eq!(code(create(&own, &tag("eks:eks-cluster-name", "c2")).await).as_deref(), denied);
    assert_eq!(code(create(&own, &cluster).await), None);
}

#[tokio::test]
async fn a_role_that_cannot_be_assumed_concerns_its_cluster_alone() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let set_id = |id: &str| {
        ec2.change_account(|account| {
            let role = account.roles.iter_mut().find(|role| role.name == "fleetwright-c1").unwrap();
            role.external_id = Some(id.to_owned());
        });
    };
    set_id("other");
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    let order = order_of("c1", "a", "c1_nodes");
    let (operation, code, message) = refused(cloud.launch(&order).await);
    assert_eq!((operation.as_str(), code.as_str()), ("AssumeRole", "AccessDenied"));
    let expected = "the server cannot assume the role arn:aws:iam::123456789012:role/fleetwright-c1 for cluster c1 (";
    assert!(message.starts_with(expected), "{message}");
    assert!(message.contains("sts:AssumeRole and sts:TagSession with the external id of the server"), "{message}");
    assert!(message.ends_with("and that the server's own policy allows the same"), "{message}");
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    let (kind, reason, message) = condition(&resolved, VALIDATION_SUCCEEDED);
    assert_eq!((kind, reason, message.starts_with(expected)), ("missing", "RoleNotAssumable", true), "{message}");
    // The other cluster launches, and the refused role was asked for once.
    cloud.launch(&order_of("c2", "a", "c2_nodes")).await.unwrap();
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (1, 1));
    set_id(EXTERNAL_ID);
    MINUTES.store(5, Ordering::SeqCst);
    cloud.launch(&order).await.unwrap();
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (2, 2));
}

#[tokio::test]
async fn a_trust_policy_without_tags_is_refused_with_the_right_that_it_lacks() {
    let (ec2, cloud) = connect().await;
    ec2.change_account(|account| account.roles.iter_mut().for_each(|role| role.tag_session = false));
    let (operation, _, message) = refused(cloud.launch(&order_of("c1", "a", "c1_nodes")).await);
    assert!(operation == "AssumeRole" && message.contains("sts:TagSession"), "{operation}: {message}");
    // The account's session has no tags.
    cloud.list_all().await.unwrap();
}

/// Number of sessions of a role that STS was asked for.
fn assumed(ec2: &Endpoint, role: &str) -> usize {
    let of_role = |call: &&Call| call.parameters.get("RoleArn").is_some_and(|found| *found == arn(role));
    of_action(ec2, "AssumeRole").iter().filter(of_role).count()
}

fn rejected(ec2: &Endpoint) -> usize {
    let is_rejected =
        |call: &&Call| matches!(&call.outcome, Outcome::Answered { code: Some(code), .. } if code == "RequestExpired");
    ec2.calls().iter().filter(is_rejected).count()
}

#[tokio::test]
async fn a_session_is_renewed_before_its_end() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    let mut sessions = Vec::new();
    for minute in (0..=120).step_by(5) {
        MINUTES.store(minute, Ordering::SeqCst);
        cloud.launch(&order_of("c1", &format!("at-{minute}"), "c1_nodes")).await.unwrap();
        sessions.push(assumed(&ec2, "fleetwright-c1"));
        ec2.wait(Duration::from_secs(300));
    }
    // A session of 60 minutes is renewed 5 minutes before its end, or up to a tenth of the 55 minutes before that: at 50 or
    // at 55 minutes, as calls are every 5. Launches 0 to 9 are before minute 50, launches 22 to 24 after minute 110.
    assert_eq!((sessions[9], sessions[11], sessions[19], sessions[22]), (1, 2, 2, 3), "{sessions:?}");
    assert_eq!(rejected(&ec2), 0);
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_session_in_use() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    cloud.launch(&order_of("c1", "a", "c1_nodes")).await.unwrap();
    MINUTES.store(56, Ordering::SeqCst);
    ec2.wait(Duration::from_secs(56 * 60));
    ec2.fail("AssumeRole", 0, "InternalFailure");
    cloud.launch(&order_of("c1", "b", "c1_nodes")).await.unwrap();
    assert_eq!(assumed(&ec2, "fleetwright-c1"), 2);
    // Its end comes: the session is made anew.
    MINUTES.store(61, Ordering::SeqCst);
    ec2.wait(Duration::from_secs(5 * 60));
    cloud.launch(&order_of("c1", "c", "c1_nodes")).await.unwrap();
    assert_eq!(assumed(&ec2, "fleetwright-c1"), 3);
}

#[tokio::test]
async fn without_an_answer_of_sts_a_launch_is_repeated() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    ec2.fail("AssumeRole", 0, "InternalFailure");
    let order = order_of("c1", "a", "c1_nodes");
    let error = cloud.launch(&order).await.unwrap_err();
    let CloudError::Unknown { operation } = &error else { panic!("{error:?}") };
    assert!(operation.starts_with("AssumeRole (") && operation.contains("fleetwright-c1"), "{operation}");
    MINUTES.store(1, Ordering::SeqCst);
    cloud.launch(&order).await.unwrap();
    assert_eq!(ec2.launched_count(), 1);
}

#[tokio::test]
async fn a_session_that_aws_rejects_is_made_anew_for_the_repeated_order() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    cloud.launch(&order_of("c1", "a", "c1_nodes")).await.unwrap();
    cloud.list_all().await.unwrap();
    MINUTES.store(2, Ordering::SeqCst);
    ec2.revoke_sessions();
    let order = order_of("c1", "b", "c1_nodes");
    let error = cloud.launch(&order).await.unwrap_err();
    let CloudError::Unknown { operation } = &error else { panic!("{error:?}") };
    assert!(operation.contains("the next call makes a new one"), "{operation}");
    cloud.launch(&order).await.unwrap();
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (2, 2));
    // The account's session is another one.
    assert!(matches!(cloud.list_all().await, Err(CloudError::Unknown { .. })));
    assert_eq!(cloud.list_all().await.unwrap().len(), 2);
}

/// AWS may not know a session everywhere at once, and another new one would be rejected as well.
#[tokio::test]
async fn a_new_session_that_aws_rejects_is_kept_for_a_minute() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    cloud.launch(&order_of("c1", "a", "c1_nodes")).await.unwrap();
    ec2.revoke_sessions();
    let (operation, code, _) = refused(cloud.launch(&order_of("c1", "b", "c1_nodes")).await);
    assert_eq!((operation.as_str(), code.as_str()), ("CreateFleet", "AuthFailure"));
    assert_eq!(assumed(&ec2, "fleetwright-c1"), 1);
    MINUTES.store(1, Ordering::SeqCst);
    let order = order_of("c1", "c", "c1_nodes");
    assert!(matches!(cloud.launch(&order).await, Err(CloudError::Unknown { .. })));
    cloud.launch(&order).await.unwrap();
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (2, 2));
}

/// IAM revokes sessions by a policy that denies everything to those made before a time.
#[tokio::test]
async fn a_denied_call_has_an_older_session_made_anew() {
    clock!(MINUTES, clock);
    let ec2 = start().await;
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    for (minute, sessions) in [(0, 1), (4, 1), (5, 1), (6, 2)] {
        MINUTES.store(minute, Ordering::SeqCst);
        ec2.fail("CreateFleet", 0, "UnauthorizedOperation");
        refused(cloud.launch(&order_of("c1", &format!("at-{minute}"), "c1_nodes")).await);
        // The denied call at minute 5 drops the session of minute 0, and the one at minute 6 has another.
        assert_eq!(assumed(&ec2, "fleetwright-c1"), sessions, "{minute}");
    }
    cloud.launch(&order_of("c1", "last", "c1_nodes")).await.unwrap();
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (1, 2));
}

#[tokio::test]
async fn while_the_accounts_role_cannot_be_assumed_lookups_say_so_and_launches_go_on() {
    let (ec2, cloud) = connect().await;
    ec2.change_account(|account| {
        let role = account.roles.iter_mut().find(|role| role.name == "fleetwright-account").unwrap();
        role.external_id = Some("other".to_owned());
    });
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    let (kind, reason, message) = condition(&resolved, SUBNETS_READY);
    assert_eq!((kind, reason), ("unknown", "RoleNotAssumable"));
    assert!(message.contains("role/fleetwright-account for the lookups of all clusters (AccessDenied"), "{message}");
    cloud.launch(&order_of("c1", "a", "c1_nodes")).await.unwrap();
    // The lookups of one resolution asked for the role once.
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-account")), (1, 1));
}

#[tokio::test]
async fn launches_of_a_cluster_at_once_make_one_session() {
    let (ec2, cloud) = connect().await;
    let cloud = Arc::new(cloud);
    let launches = (0..50).map(|number| {
        let cloud = Arc::clone(&cloud);
        tokio::spawn(async move { cloud.launch(&order_of("c1", &format!("claim-{number}"), "c1_nodes")).await })
    });
    for launch in launches.collect::<Vec<_>>() {
        launch.await.unwrap().unwrap();
    }
    assert_eq!((ec2.launched_count(), assumed(&ec2, "fleetwright-c1")), (50, 1));
}

/// The class of `cluster` with selectors that all clusters share.
fn shared_query(cluster: &str) -> NodeClassQuery {
    let mut query = query_of(cluster);
    let spec = Arc::make_mut(&mut query.spec);
    spec.subnet_terms = vec![by_tag("karpenter.sh/discovery", "c1")];
    spec.security_group_terms = vec![by_tag("karpenter.sh/discovery", "c1")];
    query
}

/// EC2 lookups and AssumeRoles in two minutes in which the classes of so many clusters are resolved every half minute.
async fn calls_of(clusters: usize) -> (usize, usize) {
    static HALF_MINUTES: AtomicI64 = AtomicI64::new(0);
    fn clock() -> Timestamp {
        NOW + Millis::from_secs(30 * HALF_MINUTES.load(Ordering::SeqCst))
    }
    let names: Vec<String> = (0..clusters).map(|number| format!("cluster-{number}")).collect();
    let shown: Vec<&str> = names.iter().map(String::as_str).collect();
    let ec2 = Endpoint::with(|account| account.roles.extend(roles_of(&shown))).await;
    HALF_MINUTES.store(0, Ordering::SeqCst);
    let cloud = adapter_by(with_roles(ec2.url()), clock);
    for half in 0..4 {
        HALF_MINUTES.store(half, Ordering::SeqCst);
        let before = Instant::now();
        for name in &names {
            cloud.resolve_node_class(&shared_query(name)).await;
        }
        println!("{clusters} clusters, half minute {half}: resolved in {:?}", before.elapsed());
    }
    let lookups = ec2.calls().iter().filter(|call| call.service == "ec2").count();
    (lookups, of_action(&ec2, "AssumeRole").len())
}

#[tokio::test]
async fn lookups_are_shared_by_a_thousand_clusters_with_a_session_each() {
    let (two, many) = (calls_of(2).await, calls_of(1_000).await);
    println!("EC2 lookups and AssumeRoles in two minutes: {two:?} for 2 clusters, {many:?} for 1000");
    assert_eq!(two.0, many.0);
    // One session for each cluster, and the account's.
    assert_eq!((two.1, many.1), (3, 1_001));
}
