//! An entry of the file of accounts.

use serde::Deserialize;

/// Placeholder of a cluster's name in a role.
const CLUSTER: &str = "{cluster}";

/// An `[[account]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct EntryFields {
    pub(super) name: String,
    pub(super) region: String,
    pub(super) clusters: Vec<String>,
    role_arn: Option<String>,
    cluster_role_arn: Option<String>,
    external_id: Option<String>,
    interruption_queue: Option<String>,
    #[serde(default = "all")]
    api_limit_percent: u32,
    endpoint: Option<String>,
}

/// Percentage without a setting.
fn all() -> u32 {
    100
}

/// An account and region, and how its API is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountEntry {
    /// Number of the account, or another name for it.
    pub account: String,
    /// Region, such as `eu-west-1`.
    pub region: String,
    /// Roles that the calls are made with.
    pub roles: AccountRoles,
    /// Name of the queue that receives notices about instances.
    pub interruption_queue: Option<String>,
    /// Percentage of EC2's default rate limits; at least 1.
    pub api_limit_percent: u32,
    /// Endpoint of all AWS APIs; `None`: that of `cloud.endpoint`, or AWS's own ones.
    pub endpoint: Option<String>,
}

/// Roles that the server assumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRoles {
    /// Role for what all clusters of the account share.
    pub account: Option<String>,
    /// Role for the changes of one cluster; `{cluster}` stands for its name.
    pub cluster: Option<String>,
    /// External id that the roles' trust policies require.
    pub external_id: Option<String>,
}

impl EntryFields {
    /// How errors call the entry with this number.
    pub(super) fn title(&self, number: usize) -> String {
        format!("[[account]] {number} ({}, {})", self.name, self.region)
    }

    /// Errors of its fields.
    pub(super) fn check(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.name.is_empty() || self.name.contains('/') {
            errors.push("name: write the number of the account, as in \"123456789012\"".to_owned());
        }
        let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.region.is_empty() || !self.region.bytes().all(is_region) {
            errors.push("region: write the name of a region, as in \"eu-west-1\"".to_owned());
        }
        if self.clusters.is_empty() {
            errors.push("clusters: write at least one cluster, as in [\"prod-*\", \"staging\"]".to_owned());
        }
        errors.extend(self.role_arn.as_deref().and_then(|arn| self.role_error("role-arn", arn, false)));
        errors.extend(self.cluster_role_arn.as_deref().and_then(|arn| self.role_error("cluster-role-arn", arn, true)));
        errors.extend(self.shared_role_error());
        if self.external_id.is_some() && self.role_arn.is_none() && self.cluster_role_arn.is_none() {
            errors.push("external-id: it is sent with a role only; add role-arn, or remove it".to_owned());
        }
        if self.interruption_queue.as_deref() == Some("") {
            errors.push("interruption-queue: write the name of the queue, or remove the field".to_owned());
        }
        if self.api_limit_percent == 0 {
            errors.push(
                "api-limit-percent: write a whole number from 1; without calls nothing can be launched".to_owned(),
            );
        }
        let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
        if self.endpoint.as_deref().is_some_and(|endpoint| !is_url(endpoint)) {
            errors.push("endpoint: write a URL such as http://127.0.0.1:7461".to_owned());
        }
        errors
    }

    /// Why `arn` is no role of the account.
    fn role_error(&self, field: &str, arn: &str, of_cluster: bool) -> Option<String> {
        let example = if of_cluster { "role/fleetwright-cluster-{cluster}" } else { "role/fleetwright-account" };
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", _, "iam", "", account, resource] = parts.as_slice() else {
            return Some(format!("{field}: {arn:?} is no ARN of a role; write arn:aws:iam::{}:{example}", self.name));
        };
        let Some(role) = resource.strip_prefix("role/").filter(|role| !role.is_empty()) else {
            return Some(format!("{field}: {arn:?} is no ARN of a role; write arn:aws:iam::{account}:{example}"));
        };
        if is_account_number(&self.name) && *account != self.name {
            return Some(format!(
                "{field}: the role is in account {account}, and this entry is of account {}",
                self.name
            ));
        }
        let plain = if of_cluster { role.replace(CLUSTER, "") } else { role.to_owned() };
        let placeholder =
            if of_cluster { "{cluster} is the only placeholder" } else { "only cluster-role-arn has placeholders" };
        plain.contains(['{', '}', '*']).then(|| format!("{field}: {arn:?} has another placeholder; {placeholder}"))
    }

    /// Which cluster's name makes its role that of the account, whose rights concern all clusters.
    fn shared_role_error(&self) -> Option<String> {
        let (before, after) = self.cluster_role_arn.as_deref()?.split_once(CLUSTER)?;
        let name = self.role_arn.as_deref()?.strip_prefix(before)?.strip_suffix(after)?;
        (!name.is_empty()).then(|| {
            format!(
                "cluster-role-arn: a cluster named {name:?} would have the role of the account; begin the roles of clusters \
                 with a prefix of their own, such as role/fleetwright-cluster-{{cluster}}"
            )
        })
    }

    pub(super) fn into_entry(self) -> AccountEntry {
        AccountEntry {
            account: self.name,
            region: self.region,
            roles: AccountRoles {
                account: self.role_arn,
                cluster: self.cluster_role_arn,
                external_id: self.external_id,
            },
            interruption_queue: self.interruption_queue,
            api_limit_percent: self.api_limit_percent,
            endpoint: self.endpoint,
        }
    }
}

/// Whether `name` has the form of an account's number.
fn is_account_number(name: &str) -> bool {
    name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_digit())
}
