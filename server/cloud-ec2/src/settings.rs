//! What an operator says about the account that machines are bought in.

use std::collections::BTreeMap;

/// Where and how machines are bought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// AWS region, such as `eu-west-1`.
    pub region: String,
    /// Address of an EC2 API in place of the region's own; `None` for AWS itself.
    pub endpoint: Option<String>,
    /// What every machine is made from.
    pub template: LaunchTemplate,
    /// The subnet for machines of each zone: zone name to subnet id. Machines are bought in no other zone.
    pub subnets: BTreeMap<String, String>,
}

/// An EC2 launch template: image, security groups, instance profile, user data.
///
/// It must leave instance type, subnet and market open, and must not serve tags to instances by the metadata service,
/// which refuses keys with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// Name.
    pub name: String,
    /// Version number, `$Default` or `$Latest`. With a number, an order that is sent again buys what it bought before.
    pub version: String,
}
