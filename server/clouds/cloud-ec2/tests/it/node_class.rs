//! Resolution of EC2NodeClasses through the SDK: answers, pages, failures, and the number of calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cloud::provider::CloudProvider;
use cloud_ec2::Ec2Cloud;
use cloud_ec2::nodeclass::{
    AMIS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY, SECURITY_GROUPS_READY, SUBNETS_READY,
    VALIDATION_SUCCEEDED,
};
use model::node_class::{
    AmiFamily, AmiTerm, InstanceIdentity, NodeClassQuery, NodeClassSpec, NodeClassStatus, ReservationTerm, Resolution,
    ResolvedNodeClass, ResourceTerm,
};
use model::{ClusterFacts, Text, Timestamp};
use serde_json::json;

use super::fake_ec2::selectors::{Account, FakeAccount, Profile, Resource, role_arn};
use super::{NOW, settings};

fn subnet(id: &str, zone: &str, free: &str) -> Resource {
    Resource::new("subnetId", "subnet-id", id)
        .field("availabilityZone", zone)
        .field("availabilityZoneId", &zone.replace("eu-west-1", "euw1-az"))
        .field("availableIpAddressCount", free)
        .field("vpcId", "vpc-1")
        .tag("team", "web")
}

fn group(id: &str) -> Resource {
    Resource::new("groupId", "group-id", id)
        .field("groupName", &format!("{id}-name"))
        .field("vpcId", "vpc-1")
        .tag("team", "web")
}

fn image(id: &str, arch: &str, created: &str) -> Resource {
    let named = Resource::new("imageId", "image-id", id).field("name", &format!("{id}-name"));
    named.field("architecture", arch).field("creationDate", created).filter("name", &format!("{id}-name"))
}

fn parameter(image: &str) -> String {
    format!("/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/{image}/recommended/image_id")
}

/// An account with what the query of these tests selects.
pub(crate) fn account() -> Account {
    let images = [("x86_64/standard", "ami-x"), ("x86_64/nvidia", "ami-gpu"), ("arm64/standard", "ami-arm")];
    let profile = Profile { path: "/".into(), role: Some("nodes".into()), tags: BTreeMap::new() };
    Account {
        subnets: vec![subnet("subnet-a", "eu-west-1a", "10"), subnet("subnet-b", "eu-west-1b", "200")],
        groups: vec![group("sg-2"), group("sg-1")],
        images: vec![
            image("ami-x", "x86_64", "2025-03-01T00:00:00.000Z"),
            image("ami-gpu", "x86_64", "2025-03-02T00:00:00.000Z"),
            image("ami-arm", "arm64", "2025-03-03T00:00:00.000Z"),
        ],
        parameters: images.map(|(name, id)| (parameter(name), id.to_owned())).into(),
        profiles: [("nodes".to_owned(), profile)].into(),
        ..Account::default()
    }
}

pub(crate) fn by_tag(key: &str, value: &str) -> ResourceTerm {
    ResourceTerm { tags: [(key.into(), value.into())].into(), ..ResourceTerm::default() }
}

/// EC2NodeClass `default` of this cluster.
pub(crate) fn query_of(cluster: &str) -> NodeClassQuery {
    let spec = NodeClassSpec {
        ami_family: AmiFamily::Al2023,
        ami_terms: vec![AmiTerm { alias: Some("al2023@latest".into()), ..AmiTerm::default() }],
        subnet_terms: vec![by_tag("team", "web")],
        security_group_terms: vec![by_tag("team", "web")],
        identity: InstanceIdentity::Profile("nodes".into()),
        ..NodeClassSpec::default()
    };
    let facts = ClusterFacts {
        endpoint: "https://example".into(),
        certificate_authority: "Y2E=".into(),
        service_cidr: Some("10.100.0.0/16".into()),
        dns: Vec::new(),
        kubernetes_version: "v1.35.2".into(),
    };
    NodeClassQuery {
        cluster: cluster.into(),
        cluster_uid: Text::from(format!("uid-{cluster}")),
        name: "default".into(),
        uid: "uid-nc".into(),
        spec: Arc::new(spec),
        status: Arc::new(NodeClassStatus::default()),
        facts: Arc::new(facts),
    }
}

pub(crate) fn with_spec(change: impl FnOnce(&mut NodeClassSpec)) -> NodeClassQuery {
    let mut query = query_of("c1");
    change(Arc::make_mut(&mut query.spec));
    query
}

pub(crate) fn cloud_by(fake: &FakeAccount, clock: fn() -> Timestamp) -> Ec2Cloud {
    let credentials = aws_sdk_ec2::config::Credentials::new("AKIDTEST", "secret", None, None, "test");
    Ec2Cloud::with_credentials(settings(fake.endpoint()), credentials, clock)
}

pub(crate) async fn connect(account: Account) -> (FakeAccount, Ec2Cloud) {
    let fake = FakeAccount::start(account).await;
    let cloud = cloud_by(&fake, || NOW);
    (fake, cloud)
}

/// Kind, reason and message of a condition.
pub(crate) fn condition<'r>(resolved: &'r ResolvedNodeClass, name: &str) -> (&'static str, &'r str, &'r str) {
    match &resolved.conditions[name] {
        Resolution::Met => ("met", "", ""),
        Resolution::Missing { reason, message } => ("missing", reason, message),
        Resolution::Unknown { reason, message } => ("unknown", reason, message),
    }
}

fn images_of(resolved: &ResolvedNodeClass) -> Vec<&str> {
    resolved.status.images.iter().flatten().map(|image| &*image.id).collect()
}

fn subnets_of(resolved: &ResolvedNodeClass) -> Vec<&str> {
    resolved.status.subnets.iter().flatten().map(|subnet| &*subnet.id).collect()
}

const ALL: [&str; 6] = [
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    VALIDATION_SUCCEEDED,
];

#[tokio::test]
async fn a_complete_node_class_has_its_status_and_meets_every_condition() {
    let (_fake, cloud) = connect(account()).await;
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    for name in ALL {
        assert_eq!(condition(&resolved, name), ("met", "", ""), "{name}");
    }
    // Neuron and the GPU image of arm64 have no parameter; the newest image comes first.
    assert_eq!(images_of(&resolved), ["ami-arm", "ami-gpu", "ami-x"]);
    assert_eq!(subnets_of(&resolved), ["subnet-b", "subnet-a"]);
    let groups = resolved.status.security_groups.as_deref().unwrap();
    assert_eq!(
        groups.iter().map(|group| (&*group.id, &*group.name)).collect::<Vec<_>>(),
        [("sg-1", "sg-1-name"), ("sg-2", "sg-2-name")]
    );
    assert_eq!(resolved.status.instance_profile.as_deref(), Some("nodes"));
    assert_eq!(resolved.status.reservations.as_deref(), Some(&[][..]));
}

#[tokio::test]
async fn every_page_is_read() {
    let subnets = (0..5).map(|number| subnet(&format!("subnet-{number}"), "eu-west-1a", "10")).collect();
    let groups = (0..4).map(|number| group(&format!("sg-{number}"))).collect();
    let (fake, cloud) = connect(Account { subnets, groups, page: Some(2), ..account() }).await;
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    assert_eq!(subnets_of(&resolved).len(), 5);
    assert_eq!(resolved.status.security_groups.as_ref().unwrap().len(), 4);
    // Three images are two pages.
    let calls = ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"].map(|action| fake.count(action));
    assert_eq!((calls, images_of(&resolved).len()), ([3, 2, 2], 3));
}

#[tokio::test]
async fn calls_have_the_stated_parameters() {
    let (fake, cloud) = connect(account()).await;
    let name = AmiTerm { name: Some("ami-x-*".into()), ..AmiTerm::default() };
    let resolved = cloud.resolve_node_class(&with_spec(|spec| spec.ami_terms = vec![name])).await;
    assert_eq!(images_of(&resolved), ["ami-x"]);
    let images = fake.last("DescribeImages");
    let field = |name: &str| images.get(name).map(String::as_str);
    assert_eq!((field("IncludeDeprecated"), field("MaxResults")), (Some("true"), Some("1000")));
    assert_eq!((field("Owner.1"), field("Owner.2")), (Some("amazon"), Some("self")));
    assert_eq!((field("Filter.2.Name"), field("Filter.2.Value.1")), (Some("state"), Some("available")));
    assert_eq!(fake.last("DescribeSubnets")["MaxResults"], "500");
    assert_eq!(fake.last("DescribeSecurityGroups")["MaxResults"], "500");
}

#[tokio::test]
async fn a_throttled_refresh_keeps_the_last_answer_and_the_condition() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, || NOW + model::Millis::new(NOW_MS.load(Ordering::SeqCst)));
    let first = cloud.resolve_node_class(&query_of("c1")).await;
    fake.fail("DescribeSubnets", 503, "RequestLimitExceeded");
    fake.fail("GetParameter", 400, "ThrottlingException");
    fake.account().subnets.push(subnet("subnet-c", "eu-west-1c", "1"));
    NOW_MS.store(3_600_000, Ordering::SeqCst);
    let second = cloud.resolve_node_class(&query_of("c2")).await;
    assert_eq!((&second.status.subnets, &second.status.images), (&first.status.subnets, &first.status.images));
    assert_eq!(second.conditions, first.conditions);
    // Its answers are as old as the first ones: what is launched meanwhile is not compared with them.
    let found_at = |resolved: &ResolvedNodeClass| [SUBNETS_READY, AMIS_READY].map(|kind| resolved.found_at[kind]);
    assert_eq!((found_at(&first), found_at(&second)), ([NOW; 2], [NOW; 2]));
    assert_eq!(second.found_at[SECURITY_GROUPS_READY], NOW + model::Millis::new(3_600_000));
    assert_eq!(fake.count("DescribeSubnets"), 2);
    // Until the retry is due, nothing is asked.
    cloud.resolve_node_class(&query_of("c3")).await;
    assert_eq!(fake.count("DescribeSubnets"), 2);
    fake.heal("DescribeSubnets");
    NOW_MS.store(3_605_000, Ordering::SeqCst);
    let third = cloud.resolve_node_class(&query_of("c1")).await;
    assert_eq!(subnets_of(&third), ["subnet-b", "subnet-a", "subnet-c"]);
}

#[tokio::test]
async fn a_throttled_first_lookup_is_unknown_and_keeps_the_observed_status() {
    let (fake, cloud) = connect(account()).await;
    let observed = cloud.resolve_node_class(&query_of("c1")).await.status;
    fake.fail("DescribeSubnets", 503, "RequestLimitExceeded");
    let mut query = with_spec(|spec| spec.subnet_terms = vec![by_tag("team", "db")]);
    query.status = Arc::new(observed);
    let resolved = cloud.resolve_node_class(&query).await;
    let (kind, reason, message) = condition(&resolved, SUBNETS_READY);
    assert_eq!((kind, reason), ("unknown", "RequestLimitExceeded"));
    assert_eq!((resolved.found_at.get(SUBNETS_READY), resolved.found_at.len()), (None, 3));
    assert!(message.contains("spec.subnetSelectorTerms in region eu-west-1 cannot be resolved"), "{message}");
    assert_eq!(subnets_of(&resolved), ["subnet-b", "subnet-a"]);
    assert_eq!(condition(&resolved, VALIDATION_SUCCEEDED).1, "DependenciesNotReady");
}

#[tokio::test]
async fn a_throttled_parameter_is_no_missing_image() {
    let (fake, cloud) = connect(account()).await;
    fake.fail("GetParameter", 400, "ThrottlingException");
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    assert_eq!(condition(&resolved, AMIS_READY).0, "unknown");
    assert_eq!((fake.count("DescribeImages"), resolved.status.images), (0, None));
}

#[tokio::test]
async fn a_missing_right_for_ssm_iam_or_eks_stops_nothing_else() {
    let (fake, cloud) = connect(account()).await;
    fake.fail("GetParameter", 400, "AccessDeniedException");
    fake.fail("GetInstanceProfile", 403, "AccessDenied");
    fake.fail("DescribeCluster", 403, "AccessDeniedException");
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    let (kind, reason, message) = condition(&resolved, AMIS_READY);
    assert_eq!((kind, reason), ("unknown", "AccessDenied"));
    let sentence = "the server's credentials lack the right ssm:GetParameter: allow it in the policy of their role";
    assert!(message.ends_with(sentence), "{message}");
    for name in [SUBNETS_READY, SECURITY_GROUPS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY] {
        assert_eq!(condition(&resolved, name).0, "met", "{name}");
    }
    let by_id = AmiTerm { id: Some("ami-x".into()), ..AmiTerm::default() };
    let without_ssm = cloud.resolve_node_class(&with_spec(|spec| spec.ami_terms = vec![by_id])).await;
    assert!(ALL.iter().all(|name| condition(&without_ssm, name).0 == "met"), "{:?}", without_ssm.conditions);
}

#[tokio::test]
async fn what_is_missing_is_named_with_selector_and_region() {
    let (_fake, cloud) = connect(account()).await;
    let resolved = cloud
        .resolve_node_class(&with_spec(|spec| {
            spec.subnet_terms = vec![by_tag("team", "none")];
            spec.security_group_terms = vec![by_tag("team", "none")];
            spec.ami_terms = vec![AmiTerm { id: Some("ami-9".into()), ..AmiTerm::default() }];
            spec.identity = InstanceIdentity::Profile("none".into());
        }))
        .await;
    for (name, expected, part) in [
        (SUBNETS_READY, "SubnetsNotFound", "in region eu-west-1 (tag:team=none)"),
        (SECURITY_GROUPS_READY, "SecurityGroupsNotFound", "in region eu-west-1 (tag:team=none)"),
        (AMIS_READY, "AMINotFound", "in region eu-west-1 (id=ami-9)"),
        (INSTANCE_PROFILE_READY, "InstanceProfileNotFound", "the instance profile none does not exist"),
        (VALIDATION_SUCCEEDED, "DependenciesNotReady", "AMIsReady is false"),
    ] {
        let (kind, reason, message) = condition(&resolved, name);
        assert_eq!((kind, reason), ("missing", expected));
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_user_s_parameter_has_an_image_id() {
    let (fake, cloud) = connect(account()).await;
    fake.account().parameters.insert("/own/image".into(), "ami-x".into());
    fake.account().parameters.insert("/own/text".into(), "hello".into());
    let of = |name: &str| AmiTerm { ssm_parameter: Some(name.into()), ..AmiTerm::default() };
    let found = cloud.resolve_node_class(&with_spec(|spec| spec.ami_terms = vec![of("/own/image"), of("/none")])).await;
    assert_eq!(images_of(&found), ["ami-x"]);
    let refused = cloud.resolve_node_class(&with_spec(|spec| spec.ami_terms = vec![of("/own/text")])).await;
    let (kind, reason, message) = condition(&refused, AMIS_READY);
    assert_eq!((kind, reason), ("missing", "AMINotFound"));
    assert!(message.contains("the parameter /own/text of spec.amiSelectorTerms"), "{message}");
}

#[tokio::test]
async fn a_reservation_that_does_not_exist_leaves_the_others() {
    let reservation = Resource::new("capacityReservationId", "id", "cr-1")
        .field("availabilityZone", "eu-west-1a")
        .field("instanceType", "m5.large")
        .field("availableInstanceCount", "4")
        .field("instanceMatchCriteria", "targeted")
        .field("ownerId", "444455556666")
        .field("state", "active");
    let (_fake, cloud) = connect(Account { reservations: vec![reservation], ..account() }).await;
    let term = |id: &str| ReservationTerm { id: Some(id.into()), ..ReservationTerm::default() };
    let resolved =
        cloud.resolve_node_class(&with_spec(|spec| spec.reservation_terms = vec![term("cr-9"), term("cr-1")])).await;
    let found = resolved.status.reservations.as_deref().unwrap();
    assert_eq!((found.len(), &*found[0].entry.id, found[0].entry.count), (1, "cr-1", Some(4)));
    assert_eq!((&*found[0].owner_id, &*found[0].instance_match_criteria), ("444455556666", "targeted"));
    assert_eq!(condition(&resolved, CAPACITY_RESERVATIONS_READY).0, "met");
}

#[tokio::test]
async fn equal_selectors_of_two_clusters_are_looked_up_once() {
    let (fake, cloud) = connect(account()).await;
    let (one, two) = (query_of("c1"), query_of("c2"));
    let (one, two) = tokio::join!(cloud.resolve_node_class(&one), cloud.resolve_node_class(&two));
    assert_eq!(one, two);
    let expected = [
        ("DescribeCluster", 2),
        ("DescribeImages", 1),
        ("DescribeSecurityGroups", 1),
        ("DescribeSubnets", 1),
        ("GetInstanceProfile", 1),
        // One for each image of the alias.
        ("GetParameter", 5),
    ];
    assert_eq!(fake.counts(), expected.map(|(action, count)| (action.to_owned(), count)).into());
}

/// The calls of ten minutes in which each of `clusters` clusters is resolved once a minute.
async fn calls_of_ten_minutes(
    clusters: usize,
    clock: fn() -> Timestamp,
    now_ms: &AtomicI64,
) -> BTreeMap<String, usize> {
    let fake = FakeAccount::start(account()).await;
    let cloud = cloud_by(&fake, clock);
    let queries: Vec<_> = (0..clusters).map(|number| query_of(&format!("c{number}"))).collect();
    for minute in 0..10 {
        now_ms.store(minute * 60_000, Ordering::SeqCst);
        for query in &queries {
            let resolved = cloud.resolve_node_class(query).await;
            assert_eq!(subnets_of(&resolved).len(), 2);
        }
    }
    fake.counts()
}

#[tokio::test]
async fn calls_do_not_grow_with_the_number_of_clusters() {
    static FEW_MS: AtomicI64 = AtomicI64::new(0);
    static MANY_MS: AtomicI64 = AtomicI64::new(0);
    let few = calls_of_ten_minutes(2, || Timestamp::from_millis(FEW_MS.load(Ordering::SeqCst)), &FEW_MS).await;
    let many = calls_of_ten_minutes(1_000, || Timestamp::from_millis(MANY_MS.load(Ordering::SeqCst)), &MANY_MS).await;
    println!("calls in ten minutes: 2 clusters {few:?}, 1,000 clusters {many:?}");
    let expected = |clusters| {
        let calls = [
            // EKS is asked about each cluster, once an hour while it does not know the cluster.
            ("DescribeCluster", clusters),
            ("DescribeImages", 2),
            ("DescribeSecurityGroups", 2),
            ("DescribeSubnets", 10),
            ("GetInstanceProfile", 1),
            // Three parameters every five minutes, and two that do not exist every minute.
            ("GetParameter", 3 * 2 + 2 * 10),
        ];
        calls.map(|(action, count)| (action.to_owned(), count)).into()
    };
    assert_eq!((few, many), (expected(2), expected(1_000)));
}

#[tokio::test]
async fn eks_is_asked_about_a_cluster_that_it_knows_once_a_day() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let clusters = [("c1".to_owned(), json!({"name": "c1"}))].into();
    let fake = FakeAccount::start(Account { clusters, ..account() }).await;
    let cloud = cloud_by(&fake, || Timestamp::from_millis(NOW_MS.load(Ordering::SeqCst)));
    // Answers are refreshed up to a tenth of their time early.
    for (hour, expected) in [(0, 1), (2, 1), (21, 1), (25, 2)] {
        NOW_MS.store(hour * 3_600_000, Ordering::SeqCst);
        cloud.resolve_node_class(&query_of("c1")).await;
        assert_eq!(fake.count("DescribeCluster"), expected, "hour {hour}");
    }
}

#[tokio::test]
async fn a_cluster_of_eks_gives_its_service_cidr() {
    let cluster = json!({"name": "c1", "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16"}});
    let (fake, cloud) = connect(Account { clusters: [("c1".to_owned(), cluster)].into(), ..account() }).await;
    let mut query = query_of("c1");
    Arc::make_mut(&mut query.facts).service_cidr = None;
    let resolved = cloud.resolve_node_class(&query).await;
    assert_eq!(condition(&resolved, VALIDATION_SUCCEEDED), ("met", "", ""));
    assert_eq!(resolved.service_cidr.as_deref(), Some("172.20.0.0/16"));
    query.cluster = "c2".into();
    let resolved = cloud.resolve_node_class(&query).await;
    assert_eq!(resolved.service_cidr, None);
    assert_eq!(condition(&resolved, VALIDATION_SUCCEEDED).1, "ClusterCIDRResolutionFailed");
    assert_eq!(fake.count("DescribeCluster"), 2);
}

#[tokio::test]
async fn a_cluster_that_admits_by_access_entries_needs_one_for_the_role_of_its_nodes() {
    let by_api = |mode: &str| json!({"name": "c1", "accessConfig": {"authenticationMode": mode}});
    let eks = |mode| Account { clusters: [("c1".to_owned(), by_api(mode))].into(), ..account() };
    let (fake, cloud) = connect(eks("API")).await;
    let resolved = cloud.resolve_node_class(&query_of("c1")).await;
    let (kind, reason, message) = condition(&resolved, VALIDATION_SUCCEEDED);
    assert_eq!((kind, reason), ("missing", "AccessEntryNotFound"));
    assert!(message.contains(&format!("--principal-arn {} --type EC2_LINUX", role_arn("nodes"))), "{message}");
    assert_eq!(fake.count("DescribeAccessEntry"), 1);

    let (fake, cloud) = connect(eks("API")).await;
    fake.account().access_entries.insert(("c1".to_owned(), role_arn("nodes")));
    assert_eq!(condition(&cloud.resolve_node_class(&query_of("c1")).await, VALIDATION_SUCCEEDED).0, "met");

    let (fake, cloud) = connect(eks("API")).await;
    fake.fail("DescribeAccessEntry", 403, "AccessDeniedException");
    assert_eq!(condition(&cloud.resolve_node_class(&query_of("c1")).await, VALIDATION_SUCCEEDED).0, "met");

    let (fake, cloud) = connect(eks("API_AND_CONFIG_MAP")).await;
    assert_eq!(condition(&cloud.resolve_node_class(&query_of("c1")).await, VALIDATION_SUCCEEDED).0, "met");
    assert_eq!(fake.count("DescribeAccessEntry"), 0);
}

#[test]
fn a_resolution_may_run_on_any_thread() {
    fn is_send<T: Send>(_: T) {}
    fn resolve(cloud: &Ec2Cloud, query: &NodeClassQuery) {
        is_send(cloud.resolve_node_class(query));
    }
    let _ = resolve;
}
