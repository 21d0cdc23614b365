use super::*;
use crate::faults::Lag;
use crate::settings::{SecurityGroup, Tags};

/// Creates a template from the fields of `data`, and launches `m5.large` in zone a from it.
fn launch_from(ec2: &mut Fixture, data: &str) -> Fields {
    let fields: String = data.split('&').map(|field| format!("&LaunchTemplateData.{field}")).collect();
    let name = format!("template-{}", ec2.cloud.ledger().launched_count() + data.len());
    ec2.call("DeleteLaunchTemplate", &format!("LaunchTemplateName={name}")).ok();
    ec2.call("CreateLaunchTemplate", &format!("LaunchTemplateName={name}{fields}")).unwrap();
    let form = fleet_form("on-demand", 1, &["InstanceType=m5.large&AvailabilityZone=eu-west-1a"]);
    ec2.call("CreateFleet", &form.replace("Name=nodes", &format!("Name={name}"))).unwrap()
}

#[test]
fn what_a_template_refers_to_must_exist_and_fit() {
    let mut ec2 = Fixture::with(|settings| {
        let vpc = "vpc-other".to_owned();
        settings.security_groups.push(SecurityGroup {
            id: "sg-other".into(),
            name: "x".into(),
            vpc,
            tags: Tags::new(),
        });
        settings.instance_profiles.insert("nodes".to_owned(), "KarpenterNodeRole-blue".to_owned());
    });
    ec2.iam("CreateInstanceProfile", "InstanceProfileName=empty").unwrap();
    let arm =
        ec2.account.region.settings().images.iter().find(|image| image.architecture == "arm64").unwrap().id.clone();
    let image = format!("ImageId={}", ec2.x86_image);
    for (data, code, message) in [
        (image.clone(), None, ""),
        ("ImageId=ami-00000000000000000".to_owned(), Some("InvalidAMIID.NotFound"), "does not exist"),
        (format!("ImageId={arm}"), Some("InvalidParameterValue"), "architecture 'arm64'"),
        ("Monitoring.Enabled=true".to_owned(), Some("MissingParameter"), "ImageId"),
        (format!("{image}&SecurityGroupId.1=sg-1"), Some("InvalidGroup.NotFound"), "sg-1"),
        (format!("{image}&NetworkInterface.1.SecurityGroupId.1=sg-1"), Some("InvalidGroup.NotFound"), "sg-1"),
        (format!("{image}&SecurityGroupId.1=sg-other"), Some("InvalidParameter"), "belong to different networks"),
        (format!("{image}&IamInstanceProfile.Name=nodes"), None, ""),
        (
            format!("{image}&IamInstanceProfile.Name=none"),
            Some("InvalidParameterValue"),
            "iamInstanceProfile.name is invalid",
        ),
        (format!("{image}&IamInstanceProfile.Name=empty"), Some("InvalidParameterValue"), "no associated IAM Roles"),
    ] {
        let answer = launch_from(&mut ec2, &data);
        assert_eq!(errors(&answer), code.into_iter().collect::<Vec<_>>(), "{data}");
        assert!(answer.text("errorSet/0/errorMessage").contains(message), "{data}: {answer:?}");
        assert_eq!(groups(&answer).len(), usize::from(code.is_none()), "{data}");
    }
}

#[test]
fn what_an_override_names_must_exist_and_fit() {
    let mut ec2 = Fixture::new();
    for (sent, code) in [
        ("InstanceType=m5.giant&AvailabilityZone=eu-west-1a", "InvalidParameterValue"),
        ("InstanceType=m5.large&AvailabilityZone=eu-west-1x", "InvalidParameterValue"),
        ("InstanceType=m5.large&SubnetId=subnet-1", "InvalidSubnetID.NotFound"),
        (
            "InstanceType=m5.large&SubnetId=subnet-0a1b2c3d4e5f60001&AvailabilityZone=eu-west-1b",
            "InvalidParameterValue",
        ),
        ("InstanceType=m5.large&AvailabilityZone=eu-west-1a&ImageId=ami-1", "InvalidAMIID.NotFound"),
        ("AvailabilityZone=eu-west-1a", "MissingParameter"),
    ] {
        let answer = ec2.fleet("on-demand", 1, &[sent]);
        assert_eq!((errors(&answer), groups(&answer).len()), (vec![code.to_owned()], 0), "{sent}");
    }
}

#[test]
fn a_type_that_its_zone_does_not_sell_is_unsupported() {
    let sold = |(name, zone): &(String, String)| name != "m5.large" || zone != "eu-west-1a";
    let mut ec2 = Fixture::with(|settings| settings.catalogue.offerings.retain(sold));
    let answer = ec2.fleet("on-demand", 1, &["InstanceType=m5.large&AvailabilityZone=eu-west-1a"]);
    assert_eq!(errors(&answer), ["Unsupported"]);
}

#[test]
fn a_spot_pool_without_a_price_cannot_be_fulfilled() {
    let mut ec2 = Fixture::with(|settings| settings.catalogue.spot.clear());
    let answer = ec2.fleet("spot", 1, &["InstanceType=m5.large&AvailabilityZone=eu-west-1a"]);
    assert_eq!(errors(&answer), ["UnfulfillableCapacity"]);
}

#[test]
fn an_unknown_template_or_version_fails_the_call() {
    let mut ec2 = Fixture::new();
    let form = fleet_form("on-demand", 1, &["InstanceType=m5.large"]);
    let unknown = form.replace("Name=nodes", "Name=other");
    assert_eq!(ec2.code("CreateFleet", &unknown), "InvalidLaunchTemplateName.NotFoundException");
    for (version, code) in [("1", "none"), ("%24Default", "none"), ("2", "InvalidLaunchTemplateId.VersionNotFound")] {
        assert_eq!(ec2.code("CreateFleet", &form.replace("%24Latest", version)), code, "{version}");
    }
}

#[test]
fn new_templates_and_profiles_are_unknown_to_launches_for_a_while() {
    let mut ec2 = Fixture::new();
    ec2.faults(Faults {
        lag: Lag { launch_templates_ms: 2_000, instance_profiles_ms: 5_000, ..Lag::default() },
        ..Faults::default()
    });
    ec2.iam("CreateInstanceProfile", "InstanceProfileName=new").unwrap();
    ec2.iam("AddRoleToInstanceProfile", "InstanceProfileName=new&RoleName=KarpenterNodeRole-blue").unwrap();
    let image = ec2.x86_image.clone();
    let data = format!("LaunchTemplateData.ImageId={image}&LaunchTemplateData.IamInstanceProfile.Name=new");
    ec2.call("CreateLaunchTemplate", &format!("LaunchTemplateName=fresh&{data}")).unwrap();
    let form = fleet_form("on-demand", 1, &["InstanceType=m5.large"]).replace("Name=nodes", "Name=fresh");
    ec2.wait(1_999);
    assert_eq!(ec2.code("CreateFleet", &form), "InvalidLaunchTemplateName.NotFoundException");
    let listed = ec2.call("DescribeLaunchTemplates", "").unwrap();
    assert_eq!(listed.texts("launchTemplates", "launchTemplateName"), ["nodes"]);
    ec2.wait(1);
    assert_eq!(errors(&ec2.call("CreateFleet", &form).unwrap()), ["InvalidParameterValue"]);
    ec2.wait(3_000);
    assert_eq!(errors(&ec2.call("CreateFleet", &form).unwrap()), [""; 0]);
}
