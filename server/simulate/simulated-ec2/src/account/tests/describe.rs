use super::*;

fn filter(name: &str, value: &str) -> String {
    format!("Filter.1.Name={name}&Filter.1.Value.1={value}")
}

#[test]
fn subnets_and_groups_are_found_by_the_tag_of_the_cluster() {
    let mut ec2 = Fixture::new();
    let tag = filter("tag:karpenter.sh/discovery", "blue");
    let subnets = ec2.call("DescribeSubnets", &tag).unwrap();
    assert_eq!(subnets.texts("subnetSet", "availabilityZone"), ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    assert_eq!(subnets.texts("subnetSet", "availabilityZoneId"), ["euw1-az1", "euw1-az2", "euw1-az3"]);
    // 2^14 - 5.
    assert_eq!(subnets.texts("subnetSet", "availableIpAddressCount"), ["16379"; 3]);
    let groups = ec2.call("DescribeSecurityGroups", &tag).unwrap();
    assert_eq!(groups.texts("securityGroupInfo", "groupName"), ["blue-nodes"]);
    assert_eq!(
        ec2.call("DescribeSubnets", &filter("tag:karpenter.sh/discovery", "green")).unwrap().items("subnetSet").len(),
        0
    );
    for (action, form, code) in [
        ("DescribeVolumes", "", "InvalidAction"),
        ("DescribeSubnets", "DryRun=true", "UnknownParameter"),
        ("DescribeSubnets", "Filter.1.Name=cidr&Filter.1.Value.1=x", "InvalidParameterValue"),
    ] {
        assert_eq!(ec2.code(action, form), code, "{action} {form}");
    }
}

#[test]
fn images_are_found_by_owner_name_and_age() {
    let mut ec2 = Fixture::new();
    let count = |ec2: &mut Fixture, form: &str| ec2.call("DescribeImages", form).unwrap().items("imagesSet").len();
    // 7 versions of Kubernetes, 9 variants, 3 releases, of which the first was deprecated in January 2026.
    assert_eq!(count(&mut ec2, ""), 7 * 9 * 2);
    assert_eq!(count(&mut ec2, "IncludeDeprecated=true"), 7 * 9 * 3);
    assert_eq!(count(&mut ec2, "IncludeDeprecated=true&Owner.1=self"), 0);
    assert_eq!(count(&mut ec2, "IncludeDeprecated=true&Owner.1=amazon"), 7 * 9 * 3);
    let al2023 = filter("name", "amazon-eks-node-al2023-x86_64-standard-1.34-*");
    assert_eq!(count(&mut ec2, &format!("Owner.1=amazon&IncludeDeprecated=true&{al2023}")), 3);
    let old = ec2.call("DescribeImages", "IncludeDeprecated=true").unwrap().text("imagesSet/0/imageId");
    assert_eq!(count(&mut ec2, &filter("image-id", &old)), 0);
    assert_eq!(count(&mut ec2, &format!("IncludeDeprecated=true&{}", filter("image-id", &old))), 1);
}

#[test]
fn offerings_are_listed_by_zone() {
    let mut ec2 = Fixture::new();
    let found = ec2.call("DescribeInstanceTypeOfferings", "LocationType=availability-zone").unwrap();
    let set = "instanceTypeOfferingSet";
    let offered = found.texts(set, "instanceType").into_iter().zip(found.texts(set, "location"));
    let zones: Vec<String> = offered.filter(|(name, _)| name == "m5.large").map(|(_, zone)| zone).collect();
    assert_eq!(zones, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
    assert_eq!(ec2.code("DescribeInstanceTypeOfferings", "LocationType=outpost"), "InvalidParameterValue");
}

#[test]
fn types_are_described_in_pages_of_at_most_a_hundred() {
    let mut ec2 = Fixture::new();
    let found = ec2.call("DescribeInstanceTypes", "").unwrap();
    let at = found.texts("instanceTypeSet", "instanceType").iter().position(|name| name == "m5.large").unwrap();
    assert_eq!(found.text(&format!("instanceTypeSet/{at}/memoryInfo/sizeInMiB")), "8192");
    assert_eq!(found.text(&format!("instanceTypeSet/{at}/processorInfo/supportedArchitectures/0")), "x86_64");
    assert_eq!(ec2.call("DescribeInstanceTypes", "MaxResults=100").unwrap().items("instanceTypeSet").len(), 100);
    assert_eq!(ec2.code("DescribeInstanceTypes", "MaxResults=101"), "InvalidParameterValue");
}
