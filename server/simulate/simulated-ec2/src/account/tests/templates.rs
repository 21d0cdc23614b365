use super::*;

fn create(ec2: &mut Fixture, name: &str, more: &str) -> String {
    let image = ec2.x86_image.clone();
    ec2.code("CreateLaunchTemplate", &format!("LaunchTemplateName={name}&LaunchTemplateData.ImageId={image}{more}"))
}

fn names(ec2: &mut Fixture, form: &str) -> Vec<String> {
    ec2.call("DescribeLaunchTemplates", form).unwrap().texts("launchTemplates", "launchTemplateName")
}

#[test]
fn a_name_is_used_once_and_a_token_repeats_the_answer() {
    let mut ec2 = Fixture::new();
    assert_eq!(create(&mut ec2, "a/1", "&ClientToken=t"), "none");
    assert_eq!(create(&mut ec2, "a/1", "&ClientToken=t"), "none");
    assert_eq!(create(&mut ec2, "a/2", "&ClientToken=t"), "IdempotentParameterMismatch");
    assert_eq!(create(&mut ec2, "a/1", ""), "InvalidLaunchTemplateName.AlreadyExistsException");
    assert_eq!(create(&mut ec2, "a", ""), "InvalidLaunchTemplateName.MalformedException");
    assert_eq!(create(&mut ec2, "a%20b", ""), "InvalidLaunchTemplateName.MalformedException");
    let tags = "&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=aws%3Ax&TagSpecification.1.Tag.1.Value=1";
    assert_eq!(create(&mut ec2, "tagged", tags), "InvalidParameterValue");
}

#[test]
fn templates_are_found_by_tags_in_pages_and_deleted() {
    let mut ec2 = Fixture::new();
    for name in ["t-1", "t-2", "t-3"] {
        let tag = "&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=c&TagSpecification.1.Tag.1.Value=";
        assert_eq!(create(&mut ec2, name, &format!("{tag}{name}")), "none");
    }
    assert_eq!(names(&mut ec2, "Filter.1.Name=tag-key&Filter.1.Value.1=c"), ["t-1", "t-2", "t-3"]);
    assert_eq!(names(&mut ec2, "Filter.1.Name=tag:c&Filter.1.Value.1=t-2"), ["t-2"]);
    let page = ec2.call("DescribeLaunchTemplates", "MaxResults=3").unwrap();
    assert_eq!(page.texts("launchTemplates", "launchTemplateName"), ["nodes", "t-1", "t-2"]);
    assert_eq!(names(&mut ec2, &format!("MaxResults=3&NextToken={}", page.text("nextToken"))), ["t-3"]);
    assert_eq!(ec2.code("DeleteLaunchTemplate", "LaunchTemplateName=t-1"), "none");
    assert_eq!(
        ec2.code("DeleteLaunchTemplate", "LaunchTemplateName=t-1"),
        "InvalidLaunchTemplateName.NotFoundException"
    );
    assert_eq!(names(&mut ec2, ""), ["nodes", "t-2", "t-3"]);
}

#[test]
fn tags_of_template_and_fleet_are_merged_on_the_instance() {
    let mut ec2 = Fixture::new();
    let tags = "&LaunchTemplateData.TagSpecification.1.ResourceType=instance\
                &LaunchTemplateData.TagSpecification.1.Tag.1.Key=a&LaunchTemplateData.TagSpecification.1.Tag.1.Value=template\
                &LaunchTemplateData.TagSpecification.1.Tag.2.Key=b&LaunchTemplateData.TagSpecification.1.Tag.2.Value=template";
    assert_eq!(create(&mut ec2, "tagged", tags), "none");
    let form = fleet_form("on-demand", 1, &["InstanceType=m5.large"]).replace("Name=nodes", "Name=tagged");
    let more =
        "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=b&TagSpecification.1.Tag.1.Value=fleet";
    ec2.call("CreateFleet", &(form + more)).unwrap();
    let described = ec2.call("DescribeInstances", "").unwrap();
    let instance =
        described.items("reservationSet")[0].fields().unwrap().items("instancesSet")[0].fields().unwrap().clone();
    let pairs: Vec<(String, String)> = instance
        .texts("tagSet", "key")
        .into_iter()
        .zip(instance.texts("tagSet", "value"))
        .filter(|(key, _)| key.len() == 1)
        .collect();
    assert_eq!(pairs, [("a".to_owned(), "template".to_owned()), ("b".to_owned(), "fleet".to_owned())]);
}
