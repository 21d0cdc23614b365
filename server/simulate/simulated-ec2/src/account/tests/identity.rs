use super::*;
use crate::settings::Role;

#[test]
fn a_profile_is_made_filled_listed_and_removed() {
    let mut iam = Fixture::new();
    let code = |iam: &mut Fixture, action: &str, form: &str| {
        iam.identity(action, form).map_or_else(|error| error.code, |_| "none".to_owned())
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
        ("GetRole", "RoleName=KarpenterNodeRole-blue", "none"),
        ("GetRole", "RoleName=none", "NoSuchEntity"),
        ("DeleteInstanceProfile", profile, "DeleteConflict"),
    ] {
        assert_eq!(code(&mut iam, action, form), expected, "{action} {form}");
    }
    let found = iam.identity("GetInstanceProfile", profile).unwrap();
    assert_eq!(
        found.text("InstanceProfile/Arn"),
        "arn:aws:iam::123456789012:instance-profile/karpenter/eu-west-1/blue/p"
    );
    assert_eq!(found.text("InstanceProfile/Roles/0/RoleName"), "KarpenterNodeRole-blue");
    assert_eq!(found.text("InstanceProfile/Tags/1/Key"), "b");
    for (prefix, expected) in [("/karpenter/", 1), ("/other/", 0)] {
        let listed = iam.identity("ListInstanceProfiles", &format!("PathPrefix={prefix}")).unwrap();
        assert_eq!(listed.items("InstanceProfiles").len(), expected);
    }
    for (action, form) in [("RemoveRoleFromInstanceProfile", role), ("DeleteInstanceProfile", profile)] {
        assert_eq!(code(&mut iam, action, form), "none", "{action}");
    }
    assert_eq!(code(&mut iam, "GetInstanceProfile", profile), "NoSuchEntity");
    assert_eq!(code(&mut iam, "CreateRole", "RoleName=x"), "InvalidAction");
}

#[test]
fn a_role_is_assumed_with_its_external_id_only() {
    let mut sts = Fixture::with(|settings| {
        settings.roles.push(Role { external_id: Some("secret".to_owned()), ..Role::new("fleet") });
    });
    let assume = |sts: &mut Fixture, role: &str, more: &str| {
        sts.identity("AssumeRole", &format!("RoleArn=arn:aws:iam::123456789012:role/{role}&RoleSessionName=s1{more}"))
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
    let own = sts.identity("GetCallerIdentity", "").unwrap();
    assert_eq!((own.text("Account"), own.text("UserId")), ("123456789012".to_owned(), "AKID".to_owned()));
}
