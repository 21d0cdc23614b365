use serde_json::json;

use super::*;

#[test]
fn every_image_parameter_leads_to_an_image() {
    let mut ssm = Fixture::new();
    let parameters = ssm.account.region.settings().parameters.clone();
    // Per version: 3 pinned releases and one alias for each of 9 variants.
    assert_eq!(parameters.len(), 7 * 9 * 4);
    for (name, image) in &parameters {
        let found = ssm.json(Service::Ssm, "GetParameter", &json!({ "Name": name })).unwrap();
        assert_eq!(found["Parameter"]["Value"].as_str(), Some(image.as_str()));
        let described = format!("IncludeDeprecated=true&Filter.1.Name=image-id&Filter.1.Value.1={image}");
        assert_eq!(ssm.call("DescribeImages", &described).unwrap().items("imagesSet").len(), 1, "{name}");
    }
    let latest = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/standard/recommended/image_id";
    let image = ssm.account.region.image(&parameters[latest]).unwrap();
    assert_eq!(image.name, "amazon-eks-node-al2023-arm64-standard-1.34-v20260806");
    let unknown = ssm.json(Service::Ssm, "GetParameter", &json!({ "Name": "/aws/service/eks/x" }));
    assert_eq!(unknown.map_err(|error| error.code), Err("ParameterNotFound".to_owned()));
}

fn query(tenancy: &str, family: &str) -> Value {
    let filter = |(field, value): (&str, &str)| json!({ "Type": "TERM_MATCH", "Field": field, "Value": value });
    let fields = [
        ("regionCode", "eu-west-1"),
        ("serviceCode", "AmazonEC2"),
        ("preInstalledSw", "NA"),
        ("operatingSystem", "Linux"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("tenancy", tenancy),
        ("productFamily", family),
    ];
    json!({ "ServiceCode": "AmazonEC2", "Filters": fields.map(filter), "MaxResults": 100 })
}

/// Prices of all pages, by type.
fn prices(pricing: &mut Fixture, mut body: Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    loop {
        let page = pricing.json(Service::Pricing, "GetProducts", &body).unwrap();
        for text in page["PriceList"].as_array().unwrap() {
            let product: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
            let first = |value: &Value| value.as_object().unwrap().values().next().unwrap().clone();
            let dimension = first(&first(&product["terms"]["OnDemand"])["priceDimensions"]);
            let usd = dimension["pricePerUnit"]["USD"].as_str().unwrap().to_owned();
            found.insert(product["product"]["attributes"]["instanceType"].as_str().unwrap().to_owned(), usd);
        }
        let Some(token) = page["NextToken"].as_str() else { return found };
        body["NextToken"] = token.into();
    }
}

#[test]
fn prices_of_shared_and_dedicated_machines_are_those_of_the_region() {
    let mut pricing = Fixture::new();
    let shared = prices(&mut pricing, query("Shared", "Compute Instance"));
    let metal = prices(&mut pricing, query("Dedicated", "Compute Instance (bare metal)"));
    // `m5.large,*,0.107` in the table of eu-west-1.
    assert_eq!(shared["m5.large"], "0.1070000000");
    assert!(metal.keys().all(|name| name.contains("metal")) && shared.keys().all(|name| !name.contains("metal")));
    assert_eq!(shared.len() + metal.len(), pricing.account.region.catalogue().on_demand.len());
    let elsewhere = json!({ "ServiceCode": "AmazonEC2", "Filters": [{ "Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1" }] });
    assert_eq!(prices(&mut pricing, elsewhere).len(), 0);
}

#[test]
fn a_cluster_and_its_access_entry_are_described() {
    let mut eks = Fixture::new();
    let cluster = eks.json(Service::Eks, "DescribeCluster", &json!({ "name": "blue" })).unwrap();
    assert_eq!(cluster["cluster"]["kubernetesNetworkConfig"]["serviceIpv4Cidr"], "10.100.0.0/16");
    let role = "arn:aws:iam::123456789012:role/KarpenterNodeRole-blue";
    let entry =
        eks.json(Service::Eks, "DescribeAccessEntry", &json!({ "name": "blue", "principalArn": role })).unwrap();
    assert_eq!(entry["accessEntry"]["type"], "EC2_LINUX");
    for (action, body) in [
        ("DescribeCluster", json!({ "name": "green" })),
        ("DescribeAccessEntry", json!({ "name": "blue", "principalArn": "arn:aws:iam::1:role/x" })),
    ] {
        let code = eks.json(Service::Eks, action, &body).map_err(|error| error.code);
        assert_eq!(code, Err("ResourceNotFoundException".to_owned()), "{action}");
    }
    let unknown = eks.json(Service::Ssm, "PutParameter", &json!({}));
    assert_eq!(unknown.map_err(|error| error.code), Err("UnknownOperationException".to_owned()));
}

#[test]
fn a_changed_account_answers_with_what_it_contains_now() {
    let mut ec2 = Fixture::new();
    let id = ec2.launch("m5.large", 1).remove(0);
    ec2.account.change_settings(|settings| {
        settings.subnets.truncate(1);
        settings.parameters.insert("/own/image".to_owned(), "ami-1".to_owned());
        settings.roles.clear();
    });
    let found = ec2.json(Service::Ssm, "GetParameter", &json!({ "Name": "/own/image" })).unwrap();
    assert_eq!(found["Parameter"]["Value"], "ami-1");
    // The instance still has its address: 2^14 - 5 - 1.
    let subnets = ec2.call("DescribeSubnets", "").unwrap();
    assert_eq!(subnets.texts("subnetSet", "availableIpAddressCount"), ["16378"]);
    assert_eq!(ec2.code("DescribeInstances", &format!("InstanceId.1={id}")), "none");
    ec2.iam("CreateInstanceProfile", "InstanceProfileName=p").unwrap();
    let role = ec2.iam("AddRoleToInstanceProfile", "InstanceProfileName=p&RoleName=KarpenterNodeRole-blue");
    assert_eq!(role.map_err(|error| error.code), Err("NoSuchEntity".to_owned()));
}
