//! The operator's settings for EC2.

use std::collections::BTreeMap;

/// Settings of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// AWS region, such as `eu-west-1`.
    pub region: String,
    /// Address of an EC2 API in place of the region's own; `None` for AWS itself.
    pub endpoint: Option<String>,
    /// Launch template of all instances.
    pub template: LaunchTemplate,
    /// Subnet id by zone name. Instances are launched in no other zone.
    pub subnets: BTreeMap<String, String>,
}

impl Settings {
    /// Settings that read a region. Without subnets, every launch is refused.
    #[must_use]
    pub fn for_reading(region: &str, endpoint: Option<&str>) -> Self {
        Self {
            region: region.to_owned(),
            endpoint: endpoint.map(str::to_owned),
            template: LaunchTemplate { name: String::new(), version: String::new() },
            subnets: BTreeMap::new(),
        }
    }
}

/// An EC2 launch template: image, security groups, instance profile, user data.
///
/// It must not set instance type, subnet or market options, and must not expose tags in the
/// instance metadata service, which rejects keys with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// `LaunchTemplateName`.
    pub name: String,
    /// Version number, `$Default` or `$Latest`. With a number, a repeated order launches the same
    /// configuration.
    pub version: String,
}
