//! [`CloudProvider`](cloud::provider::CloudProvider) on Amazon EC2. Only this crate depends on the
//! AWS SDK.
//!
//! One launch is one `CreateFleet` of type `instant` for one instance, from launch templates that are made of the
//! order's EC2NodeClass and NodeClaim, and one subnet per zone. Its client token is a function of the order, and what is
//! added to the order is recorded with it, so the same request can be repeated until a response arrives and launches at
//! most one instance. This crate retries nothing: order and retries belong to the caller, which repeats the same request.
//!
//! State changes are found by a listing every few seconds. Notices about instances that end, such as the one two minutes
//! before a spot reclaim, are delivered by EventBridge to a queue ([`interruption`]). They name instances and no clusters,
//! so the server stores them, and the replica that knows the instance handles them.
//!
//! With roles in the settings, lookups and everything else that clusters share are made with the account's role. What
//! changes something for one cluster (launch templates and fleets, `ec2:TerminateInstances`, instance profiles) is made in
//! a session of that cluster, which has its name as the tag `eks-cluster-name` (`sessions`). The cluster is that of the
//! order, the owner or the query; nothing in an EC2NodeClass chooses a session. Unused launch templates are deleted with
//! the account's role, because their clusters may be gone.
//!
//! Launches need `ec2:CreateFleet`, `ec2:RunInstances`, `ec2:CreateTags`, `ec2:CreateLaunchTemplate`,
//! `ec2:DescribeLaunchTemplates`, `ec2:DeleteLaunchTemplate`, `ec2:TerminateInstances` and `ec2:DescribeInstances`, and `iam:PassRole` for the role of the
//! instance profile. [`interruption`] needs `ec2:DescribeInstanceStatus`, `ec2:DescribeSpotInstanceRequests`, `sqs:GetQueueUrl`, `sqs:ReceiveMessage` and
//! `sqs:DeleteMessage`. [`discovery`] needs `ec2:DescribeInstanceTypes`, `ec2:DescribeInstanceTypeOfferings`,
//! `ec2:DescribeAvailabilityZones`, `ec2:DescribeSpotPriceHistory` and `pricing:GetProducts`. [`nodeclass`] has its own
//! list.
//!
//! Reading order: [`settings`] (the operator's settings), `launch_template` and [`user_data`] (what instances are
//! configured by), `subnet_addresses`, `terms` (what is added to an order), `launches` (launches under way), `request`
//! (order to `CreateFleet`), `response` (and back), `failure` (meaning of error codes), `remedy` (what to do about them), `instance` (instances and their
//! tags), `watch` (changes between listings), `collection` (launch templates that nothing uses), [`interruption`] (notices,
//! their queue, and its setup), [`provider`] (the calls), [`nodeclass`] (what the selectors of EC2NodeClasses find),
//! [`call_budget`] (rate limits of EC2's actions), `clients` (of all services), `sessions` (whose credentials
//! they have), `error_class` and `error_body` (codes of errors), `call_error` and `slot` (lookups that fail, and values that are refreshed), and
//! [`discovery`] (instance types, zones and prices of the region).

pub mod call_budget;
mod call_error;
mod clients;
mod collection;
pub mod discovery;
mod error_body;
mod error_class;
mod failure;
mod instance;
pub mod interruption;
mod launch_template;
mod launches;
pub mod nodeclass;
pub mod provider;
mod remedy;
mod request;
mod response;
mod sessions;
pub mod settings;
mod slot;
mod subnet_addresses;
mod terms;
#[cfg(test)]
mod testing;
pub mod user_data;
mod watch;

pub use aws_sdk_ec2::config::Credentials;
pub use call_budget::{CallBudget, LocalBudget, NotSent};
pub use discovery::{Discovered, Supplement};
pub use provider::Ec2Cloud;
pub use settings::{Roles, Settings};
