use super::*;
use crate::settings::Role;

#[test]
fn a_profile_is_made_and_filled() {
    let mut iam = Fixture::new();
    let code = |iam: &mut Fixture, action: &str, form: &str| {
        iam.iam(action, form).map_or_else(|error| error.code, |_| "none".to_owned())
    };
    let profile = "InstanceProfileName=p";
    let role = "InstanceProfileName=p&RoleName=KarpenterNodeRole-blue";
    for (action, form, expected) in [
        ("GetInstanceProfile", profile, "NoSuchEntity"),
        (
            "CreateInstanceProfile",
            "InstanceProfileName=p&Path=/karpenter/eu-west-1/blue/&Tags.member.1.Key=a&Tags.member.1.Value=1",
            "none",
        ),
        ("CreateInstanceProfile", profile, "EntityAlreadyExists"),
        ("CreateInstanceProfile", "InstanceProfileName=a%20b", "ValidationError"),
        ("AddRoleToInstanceProfile", "InstanceProfileName=p&RoleName=none", "NoSuchEntity"),
        ("AddRoleToInstanceProfile", role, "none"),
        ("AddRoleToInstanceProfile", role, "LimitExceeded"),
        ("TagInstanceProfile", "InstanceProfileName=p&Tags.member.1.Key=b&Tags.member.1.Value=2", "none"),
        ("TagInstanceProfile", "InstanceProfileName=q&Tags.member.1.Key=b&Tags.member.1.Value=2", "NoSuchEntity"),
        ("DeleteInstanceProfile", profile, "InvalidAction"),
    ] {
        assert_eq!(code(&mut iam, action, form), expected, "{action} {form}");
    }
    let found = iam.iam("GetInstanceProfile", profile).unwrap();
    assert_eq!(
        found.text("InstanceProfile/Arn"),
        "arn:aws:iam::123456789012:instance-profile/karpenter/eu-west-1/blue/p"
    );
    assert_eq!(found.text("InstanceProfile/Roles/0/RoleName"), "KarpenterNodeRole-blue");
    assert_eq!(found.text("InstanceProfile/Tags/1/Key"), "b");
}

#[test]
fn a_role_is_assumed_with_its_external_id_only() {
    let mut sts = Fixture::with(|settings| {
        settings.roles.push(Role { external_id: Some("secret".to_owned()), ..Role::new("fleet") });
    });
    let assume = |sts: &mut Fixture, role: &str, more: &str| {
        sts.assume(&format!("RoleArn=arn:aws:iam::123456789012:role/{role}&RoleSessionName=s1{more}"))
    };
    for (role, more) in [("fleet", ""), ("fleet", "&ExternalId=guess"), ("none", "&ExternalId=secret")] {
        assert_eq!(
            assume(&mut sts, role, more).map_err(|error| error.code),
            Err("AccessDenied".to_owned()),
            "{role} {more}"
        );
    }
    let assumed = assume(&mut sts, "fleet", "&ExternalId=secret&DurationSeconds=900").unwrap();
    assert_eq!(assumed.text("Credentials/Expiration"), "2026-09-01T00:15:00.000Z");
    assert_eq!(assumed.text("AssumedRoleUser/Arn"), "arn:aws:sts::123456789012:assumed-role/fleet/s1");
}
