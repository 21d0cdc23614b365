//! The other services of the simulated account as their SDKs read them.

use std::time::Duration;

use aws_sdk_ec2::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, QueueAttributeName};
use cloud::provider::CloudProvider;
use simulated_ec2::Role;

use super::endpoint::{Endpoint, http_client};
use super::{adapter, order};

/// A client of `$service` for the endpoint.
macro_rules! client {
    ($service:ident, $ec2:expr) => {
        $service::Client::from_conf(
            $service::Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new("eu-west-1"))
                .credentials_provider(Credentials::new("AKIDTEST", "secret", None, None, "test"))
                .retry_config($service::config::retry::RetryConfig::disabled())
                .endpoint_url($ec2.url())
                .http_client(http_client())
                .build(),
        )
    };
}

fn code<T, E: ProvideErrorMetadata, R>(result: Result<T, SdkError<E, R>>) -> Option<String> {
    result.err()?.as_service_error()?.code().map(str::to_owned)
}

#[tokio::test]
async fn ssm_leads_to_the_images_of_eks() {
    let ec2 = Endpoint::start().await;
    let ssm = client!(aws_sdk_ssm, ec2);
    let name = "/aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id";
    let image = ssm.get_parameter().name(name).send().await.unwrap().parameter.unwrap().value.unwrap();
    let named = aws_sdk_ec2::types::Filter::builder().name("image-id").values(image).build();
    let images = client!(aws_sdk_ec2, ec2).describe_images().filters(named).send().await.unwrap();
    assert!(images.images()[0].name().unwrap().starts_with("bottlerocket-aws-k8s-1.35-arm64-v1.60.1-"));
    assert_eq!(code(ssm.get_parameter().name("/none").send().await).as_deref(), Some("ParameterNotFound"));
    ec2.fail("GetParameter", 0, "ThrottlingException");
    assert_eq!(code(ssm.get_parameter().name(name).send().await).as_deref(), Some("ThrottlingException"));
}

#[tokio::test]
async fn pricing_has_pages_of_products() {
    let ec2 = Endpoint::start().await;
    let pricing = client!(aws_sdk_pricing, ec2);
    let filter = |field: &str, value: &str| {
        let kind = aws_sdk_pricing::types::FilterType::TermMatch;
        aws_sdk_pricing::types::Filter::builder().r#type(kind).field(field).value(value).build().unwrap()
    };
    let call = || {
        let call = pricing.get_products().service_code("AmazonEC2").max_results(100);
        call.filters(filter("regionCode", "eu-west-1")).filters(filter("tenancy", "Dedicated"))
    };
    let first = call().send().await.unwrap();
    let second = call().set_next_token(first.next_token.clone()).send().await.unwrap();
    assert_eq!(first.price_list().len(), 100);
    let product: serde_json::Value = serde_json::from_str(&second.price_list()[0]).unwrap();
    assert_eq!(product["product"]["productFamily"], "Compute Instance (bare metal)");
}

#[tokio::test]
async fn iam_makes_a_profile_with_a_role() {
    let ec2 = Endpoint::start().await;
    let iam = client!(aws_sdk_iam, ec2);
    let missing = iam.get_instance_profile().instance_profile_name("p").send().await.unwrap_err().into_service_error();
    assert!(missing.is_no_such_entity_exception(), "{missing:?}");
    let tag = aws_sdk_iam::types::Tag::builder().key("a").value("1").build().unwrap();
    let create = iam.create_instance_profile().instance_profile_name("p").path("/karpenter/").tags(tag);
    create.clone().send().await.unwrap();
    assert!(create.send().await.unwrap_err().into_service_error().is_entity_already_exists_exception());
    let role = "KarpenterNodeRole-c1";
    iam.add_role_to_instance_profile().instance_profile_name("p").role_name(role).send().await.unwrap();
    let found = iam.get_instance_profile().instance_profile_name("p").send().await.unwrap().instance_profile.unwrap();
    assert_eq!((found.path(), found.roles()[0].role_name(), found.tags()[0].key()), ("/karpenter/", role, "a"));
    assert_eq!(ec2.instance_profiles()["p"].role.as_deref(), Some(role));
    let again = iam.add_role_to_instance_profile().instance_profile_name("p").role_name(role).send().await.unwrap_err();
    assert!(again.into_service_error().is_limit_exceeded_exception());
}

#[tokio::test]
async fn eks_describes_the_cluster_and_its_access_entry() {
    let ec2 = Endpoint::start().await;
    let eks = client!(aws_sdk_eks, ec2);
    let cluster = eks.describe_cluster().name("c1").send().await.unwrap().cluster.unwrap();
    assert_eq!(cluster.kubernetes_network_config().unwrap().service_ipv4_cidr(), Some("10.100.0.0/16"));
    assert_eq!(cluster.version(), Some("1.34"));
    let missing = eks.describe_cluster().name("c2").send().await.unwrap_err().into_service_error();
    assert!(missing.is_resource_not_found_exception(), "{missing:?}");
    let principal = "arn:aws:iam::123456789012:role/KarpenterNodeRole-c1";
    let entry = eks.describe_access_entry().cluster_name("c1").principal_arn(principal).send().await.unwrap();
    assert_eq!(entry.access_entry.unwrap().r#type(), Some("EC2_LINUX"));
    let unknown = eks.describe_access_entry().cluster_name("c1").principal_arn("arn:aws:iam::1:role/x");
    assert!(unknown.send().await.unwrap_err().into_service_error().is_resource_not_found_exception());
}

#[tokio::test]
async fn sts_assumes_a_role_with_its_external_id() {
    let ec2 = Endpoint::start().await;
    ec2.change_account(|account| {
        account.roles.push(Role { external_id: Some("secret".to_owned()), ..Role::new("fleet") });
    });
    let sts = client!(aws_sdk_sts, ec2);
    let call = || sts.assume_role().role_arn("arn:aws:iam::123456789012:role/fleet").role_session_name("s1");
    assert_eq!(code(call().send().await).as_deref(), Some("AccessDenied"));
    let credentials = call().external_id("secret").send().await.unwrap().credentials.unwrap();
    assert!(credentials.access_key_id().starts_with("ASIA"));
    assert_eq!(ec2.calls()[0].caller, "AKIDTEST");
}

#[tokio::test]
async fn sqs_hands_messages_out_until_they_are_deleted() {
    let ec2 = Endpoint::start().await;
    let sqs = client!(aws_sdk_sqs, ec2);
    let missing = sqs.get_queue_url().queue_name("q").send().await.unwrap_err().into_service_error();
    assert!(missing.is_queue_does_not_exist(), "{missing:?}");
    let cloud = adapter(ec2.url());
    cloud.queue_setup("q").apply(|_| ()).await.unwrap();
    let url = sqs.get_queue_url().queue_name("q").send().await.unwrap().queue_url.unwrap();
    assert_eq!(url, format!("{}/123456789012/q", ec2.url()));
    let launched = cloud.launch(&order("a")).await.unwrap().instance.id;
    let receive = || sqs.receive_message().queue_url(&url).max_number_of_messages(10).visibility_timeout(20);
    let first = receive().send().await.unwrap();
    assert!(first.messages()[0].body().unwrap().contains(&*launched));
    assert!(receive().send().await.unwrap().messages().is_empty());
    // The instance has booted meanwhile, which is another message, and later than the first one.
    ec2.wait(Duration::from_secs(20));
    let again = receive().wait_time_seconds(20).send().await.unwrap();
    let entry = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().unwrap()
    };
    let handle = again.messages()[0].receipt_handle().unwrap();
    let entries = vec![entry("a", handle), entry("b", "nonsense")];
    let deleted = sqs.delete_message_batch().queue_url(&url).set_entries(Some(entries)).send().await.unwrap();
    assert_eq!((deleted.successful()[0].id(), deleted.failed()[0].code()), ("a", "ReceiptHandleIsInvalid"));
    let all = sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::All);
    let attributes = all.send().await.unwrap().attributes.unwrap();
    assert_eq!(attributes[&QueueAttributeName::MessageRetentionPeriod], "300");
    sqs.delete_queue().queue_url(&url).send().await.unwrap();
}
