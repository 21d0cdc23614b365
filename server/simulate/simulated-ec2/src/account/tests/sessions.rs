//! Sessions of roles, and what the policies of their roles allow.

use serde_json::{Value, json};

use super::*;
use crate::settings::Role;

/// Assumes the role `fleet` for a cluster, and makes the following calls in that session.
fn enter(fixture: &mut Fixture, cluster: &str) -> String {
    let form = format!(
        "RoleArn=arn:aws:iam::123456789012:role/fleet&RoleSessionName=s1&DurationSeconds=900&\
         Tags.member.1.Key=cluster&Tags.member.1.Value={cluster}"
    );
    fixture.caller = Caller::default();
    let key = fixture.assume(&form).unwrap().text("Credentials/AccessKeyId");
    fixture.caller = fixture.account.authenticate(&key, Service::Ec2, fixture.now).unwrap();
    key
}

fn with_policy(statements: Value) -> Fixture {
    Fixture::with(|settings| {
        let policies = vec![json!({ "Statement": statements })];
        settings.roles.push(Role { policies, ..Role::new("fleet") });
        settings.roles.push(Role::new("node-blue"));
        settings.roles.push(Role::new("node-red"));
    })
}

#[test]
fn a_session_is_accepted_until_its_end_and_an_unknown_one_never() {
    let mut fixture = with_policy(json!([]));
    let key = enter(&mut fixture, "blue");
    assert_eq!(fixture.account.session(&key).unwrap().tags["cluster"], "blue");
    let code = |fixture: &Fixture, key: &str, service: Service| {
        fixture.account.authenticate(key, service, fixture.now).map(|_| ()).map_err(|error| (error.code, error.status))
    };
    fixture.wait(899_999);
    assert_eq!(code(&fixture, &key, Service::Ec2), Ok(()));
    fixture.wait(1);
    for (service, expired, unknown) in [
        (Service::Ec2, ("RequestExpired", 400), ("AuthFailure", 403)),
        (Service::Iam, ("ExpiredToken", 403), ("InvalidClientTokenId", 403)),
        (Service::Ssm, ("ExpiredTokenException", 400), ("UnrecognizedClientException", 400)),
    ] {
        let error = |(code, status): (&str, u16)| Err((code.to_owned(), status));
        assert_eq!(code(&fixture, &key, service), error(expired));
        assert_eq!(code(&fixture, "ASIA-none", service), error(unknown));
    }
    assert_eq!(code(&fixture, "AKID-none", Service::Ec2), Ok(()), "long-term credentials are not checked");
    fixture.account.revoke_sessions();
    assert_eq!(code(&fixture, &key, Service::Iam), Err(("InvalidClientTokenId".to_owned(), 403)));
}

#[test]
fn tags_of_a_session_need_a_trust_policy_that_allows_them() {
    let mut sts = Fixture::with(|settings| {
        settings.roles.push(Role { tag_session: false, ..Role::new("fleet") });
    });
    let mut code = |more: &str| {
        let form = format!("RoleArn=arn:aws:iam::123456789012:role/fleet&RoleSessionName={more}");
        sts.assume(&form).map_or_else(|error| error.code, |_| "none".to_owned())
    };
    assert_eq!(code("s1"), "none");
    assert_eq!(code("s1&Tags.member.1.Key=k&Tags.member.1.Value=v"), "AccessDenied");
    assert_eq!(code("s1&Tags.member.1.Key=k&Tags.member.1.Value=%2A"), "ValidationError");
    for name in ["s", "a b", &"s".repeat(65)] {
        assert_eq!(code(&name.replace(' ', "%20")), "ValidationError", "{name}");
    }
    assert_eq!(code("s1&DurationSeconds=899"), "ValidationError");
}

#[test]
fn calls_need_a_statement_for_action_resource_and_tags() {
    let own = json!({ "StringEquals": { "aws:ResourceTag/cluster": "${aws:PrincipalTag/cluster}" } });
    let made = json!({ "StringEquals": { "aws:RequestTag/cluster": "${aws:PrincipalTag/cluster}" } });
    let mut fixture = with_policy(json!([
        { "Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*" },
        { "Effect": "Allow", "Action": ["ec2:CreateLaunchTemplate", "ec2:CreateTags"], "Resource": "*", "Condition": made },
        { "Effect": "Allow", "Action": "ec2:DeleteLaunchTemplate", "Resource": "*", "Condition": own },
    ]));
    let image = format!("LaunchTemplateData.ImageId={}", fixture.x86_image);
    let tagged = |name: &str, cluster: &str| {
        format!(
            "LaunchTemplateName={name}&{image}&TagSpecification.1.ResourceType=launch-template&\
             TagSpecification.1.Tag.1.Key=cluster&TagSpecification.1.Tag.1.Value={cluster}"
        )
    };
    enter(&mut fixture, "blue");
    assert_eq!(fixture.code("CreateLaunchTemplate", &tagged("of-blue", "blue")), "none");
    assert_eq!(fixture.code("CreateLaunchTemplate", &tagged("of-red", "red")), "UnauthorizedOperation");
    assert_eq!(
        fixture.code("CreateLaunchTemplate", &format!("LaunchTemplateName=none&{image}")),
        "UnauthorizedOperation"
    );
    assert_eq!(fixture.code("DescribeLaunchTemplates", ""), "none");
    assert_eq!(fixture.code("TerminateInstances", "InstanceId.1=i-none"), "InvalidInstanceID.NotFound");
    enter(&mut fixture, "red");
    assert_eq!(fixture.code("DeleteLaunchTemplate", "LaunchTemplateName=of-blue"), "UnauthorizedOperation");
    enter(&mut fixture, "blue");
    assert_eq!(fixture.code("DeleteLaunchTemplate", "LaunchTemplateName=of-blue"), "none");
    let denied = fixture.json(Service::Ssm, "GetParameter", &json!({ "Name": "/a" })).unwrap_err();
    assert_eq!((denied.code.as_str(), denied.status), ("AccessDeniedException", 400));
}

#[test]
fn an_instance_profile_gets_only_a_role_that_the_caller_may_pass() {
    let mut fixture = with_policy(json!([
        { "Effect": "Allow", "Action": "iam:*InstanceProfile", "Resource": "arn:aws:iam::*:instance-profile/own/*" },
        { "Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::*:role/node-${aws:PrincipalTag/cluster}",
          "Condition": { "StringEquals": { "iam:PassedToService": "ec2.amazonaws.com" } } },
    ]));
    enter(&mut fixture, "blue");
    let mut code =
        |action: &str, form: &str| fixture.iam(action, form).map_or_else(|error| error.code, |_| "none".to_owned());
    assert_eq!(code("CreateInstanceProfile", "InstanceProfileName=p&Path=/"), "AccessDenied");
    assert_eq!(code("CreateInstanceProfile", "InstanceProfileName=p&Path=/own/"), "none");
    assert_eq!(code("AddRoleToInstanceProfile", "InstanceProfileName=p&RoleName=node-red"), "AccessDenied");
    assert_eq!(code("AddRoleToInstanceProfile", "InstanceProfileName=p&RoleName=node-blue"), "none");
}

#[test]
fn a_fleet_launches_only_what_the_caller_may_run() {
    let anything = json!({ "Effect": "Allow", "Action": "ec2:*", "Resource": "*" });
    let no_subnet =
        json!({ "Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*:subnet/subnet-0a1b2c3d4e5f60001" });
    let mut fixture = with_policy(json!([anything, no_subnet]));
    enter(&mut fixture, "blue");
    // The first subnet is that of zone a, the second that of zone b (settings: subnet).
    let pools = ["a", "b"].map(|zone| format!("InstanceType=m5.large&AvailabilityZone=eu-west-1{zone}"));
    let [a, b] = pools.each_ref().map(String::as_str);
    let both = fixture.fleet("on-demand", 1, &[a, b]);
    assert_eq!(both.texts("errorSet", "errorCode"), ["UnauthorizedOperation"]);
    assert_eq!(both.texts("fleetInstanceSet", "availabilityZone"), ["eu-west-1b"]);
    let one = fixture.fleet("on-demand", 1, &[a]);
    assert!(one.items("fleetInstanceSet").is_empty());
}
