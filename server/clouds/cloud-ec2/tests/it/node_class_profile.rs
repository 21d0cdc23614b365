//! Instance profiles that the server makes for `spec.role`.

use std::sync::atomic::{AtomicI64, Ordering};

use cloud::provider::CloudProvider;
use cloud_ec2::nodeclass::INSTANCE_PROFILE_READY;
use model::node_class::{InstanceIdentity, NodeClassQuery};
use model::{Millis, Text};

use super::NOW;
use super::fake_ec2::selectors::{Account, FakeAccount};
use super::node_class::{account, cloud_by, condition, connect, with_spec};

/// The account without profiles, and with these roles.
fn with_roles(roles: &[&str]) -> Account {
    Account { profiles: [].into(), roles: roles.iter().map(|role| (*role).to_owned()).collect(), ..account() }
}

fn of_role(role: &str) -> NodeClassQuery {
    with_spec(|spec| spec.identity = InstanceIdentity::Role(role.into()))
}

#[tokio::test]
async fn a_role_gets_a_profile_with_its_path_and_tags() {
    let (fake, cloud) = connect(with_roles(&["nodes"])).await;
    let resolved = cloud.resolve_node_class(&of_role("service/nodes")).await;
    assert_eq!(condition(&resolved, INSTANCE_PROFILE_READY), ("met", "", ""));
    let profiles = fake.account().profiles.clone();
    let (name, profile) = profiles.first_key_value().unwrap();
    assert_eq!((profiles.len(), resolved.status.instance_profile.as_deref()), (1, Some(name.as_str())));
    assert_eq!((profile.path.as_str(), profile.role.as_deref()), ("/karpenter/eu-west-1/c1/uid-nc/", Some("nodes")));
    assert_eq!(profile.tags["kubernetes.io/cluster/c1"], "owned");
}

#[tokio::test]
async fn two_replicas_make_one_profile() {
    let (fake, one) = connect(with_roles(&["nodes"])).await;
    let two = cloud_by(&fake, || NOW);
    let query = of_role("nodes");
    let (a, b) = tokio::join!(one.resolve_node_class(&query), two.resolve_node_class(&query));
    assert_eq!(a.status.instance_profile, b.status.instance_profile);
    assert_eq!(condition(&a, INSTANCE_PROFILE_READY).0, "met");
    assert_eq!(condition(&b, INSTANCE_PROFILE_READY).0, "met");
    assert_eq!(fake.account().profiles.len(), 1);
}

#[tokio::test]
async fn another_role_gets_another_profile_and_the_first_one_stays() {
    let (fake, cloud) = connect(with_roles(&["nodes", "other"])).await;
    let first = cloud.resolve_node_class(&of_role("nodes")).await.status.instance_profile;
    let second = cloud.resolve_node_class(&of_role("other")).await.status.instance_profile;
    assert_ne!(first, second);
    let roles: Vec<_> = fake.account().profiles.values().filter_map(|profile| profile.role.clone()).collect();
    assert_eq!(roles.len(), 2);
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_named_until_it_does() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let fake = FakeAccount::start(with_roles(&[])).await;
    let cloud = cloud_by(&fake, || NOW + Millis::new(NOW_MS.load(Ordering::SeqCst)));
    let resolved = cloud.resolve_node_class(&of_role("nodes")).await;
    let (kind, reason, message) = condition(&resolved, INSTANCE_PROFILE_READY);
    assert_eq!((kind, reason, resolved.status.instance_profile.as_ref()), ("missing", "RoleNotFound", None));
    assert!(message.starts_with("the role nodes of spec.role does not exist in the account"), "{message}");
    fake.account().roles.insert("nodes".to_owned());
    NOW_MS.store(60_000, Ordering::SeqCst);
    let resolved = cloud.resolve_node_class(&of_role("nodes")).await;
    assert_eq!(condition(&resolved, INSTANCE_PROFILE_READY).0, "met");
}

#[tokio::test]
async fn a_profile_without_its_tags_gets_them() {
    let (fake, cloud) = connect(with_roles(&["nodes"])).await;
    cloud.resolve_node_class(&of_role("nodes")).await;
    fake.account().profiles.values_mut().for_each(|profile| profile.tags.clear());
    cloud_by(&fake, || NOW).resolve_node_class(&of_role("nodes")).await;
    let profiles = fake.account().profiles.clone();
    let tags = &profiles.first_key_value().unwrap().1.tags;
    assert_eq!((tags.len(), tags["karpenter.k8s.aws/ec2nodeclass"].as_str()), (4, "default"));
    assert_eq!(fake.count("TagInstanceProfile"), 1);
}

#[tokio::test]
async fn a_profile_that_is_given_another_role_is_named() {
    let (fake, cloud) = connect(with_roles(&["nodes"])).await;
    cloud.resolve_node_class(&of_role("nodes")).await;
    fake.account().profiles.values_mut().for_each(|profile| profile.role = Some("foreign".to_owned()));
    let resolved = cloud_by(&fake, || NOW).resolve_node_class(&of_role("nodes")).await;
    assert_eq!(condition(&resolved, INSTANCE_PROFILE_READY).1, "InstanceProfileHasOtherRole");
}

#[tokio::test]
async fn a_missing_right_of_iam_is_unknown_unless_the_status_names_the_profile() {
    let (fake, cloud) = connect(with_roles(&["nodes"])).await;
    let made = cloud.resolve_node_class(&of_role("nodes")).await.status;
    fake.fail("GetInstanceProfile", 403, "AccessDenied");
    let restarted = cloud_by(&fake, || NOW);
    let (kind, reason, message) = ("unknown", "AccessDenied", "lack the right iam:GetInstanceProfile");
    let unseen = restarted.resolve_node_class(&of_role("nodes")).await;
    let found = condition(&unseen, INSTANCE_PROFILE_READY);
    assert_eq!((found.0, found.1), (kind, reason));
    assert!(found.2.contains(message), "{found:?}");
    let observed = NodeClassQuery { status: made.clone().into(), ..of_role("nodes") };
    let seen = restarted.resolve_node_class(&observed).await;
    assert_eq!(condition(&seen, INSTANCE_PROFILE_READY).0, "met");
    assert_eq!(seen.status.instance_profile, made.instance_profile);
    // A changed role needs another profile.
    fake.account().roles.insert("other".to_owned());
    let changed = NodeClassQuery { status: made.into(), ..of_role("other") };
    assert_eq!(condition(&restarted.resolve_node_class(&changed).await, INSTANCE_PROFILE_READY).0, "unknown");
}

#[tokio::test]
async fn clusters_of_one_name_have_a_profile_each() {
    let (fake, cloud) = connect(with_roles(&["nodes"])).await;
    cloud.resolve_node_class(&of_role("nodes")).await;
    cloud.resolve_node_class(&NodeClassQuery { cluster_uid: Text::from("uid-other"), ..of_role("nodes") }).await;
    assert_eq!(fake.account().profiles.len(), 2);
}
