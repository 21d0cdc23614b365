//! The operator's settings for EC2.

/// Settings of the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// AWS region, such as `eu-west-1`.
    pub region: String,
    /// Address of an API in place of the region's own ones; `None` for AWS itself.
    pub endpoint: Option<String>,
    /// Roles that the calls are made with.
    pub roles: Roles,
}

/// Roles of an account that this program assumes. Without any, all calls are made with the credentials that it finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// ARN of the role for what all clusters of the account share: lookups, prices, the queue of notices.
    pub account: Option<String>,
    /// ARN of the role for the changes of one cluster; `{cluster}` in it stands for the cluster's name. `None`: the
    /// account's role, in a session of the cluster.
    pub cluster: Option<String>,
    /// External id that the trust policies of the roles require.
    pub external_id: Option<String>,
}
