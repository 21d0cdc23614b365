//! The operator's settings for EC2.

/// Settings of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// AWS region, such as `eu-west-1`.
    pub region: String,
    /// Address of an API in place of the region's own ones; `None` for AWS itself.
    pub endpoint: Option<String>,
}
