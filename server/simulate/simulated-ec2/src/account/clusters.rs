//! EKS: DescribeCluster, ListAccessEntries, DescribeAccessEntry.

use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::query::paging::PageRequest;
use crate::settings::{AccountSettings, Cluster};

/// Maximum page of ListAccessEntries (API reference).
const PAGE: usize = 100;

/// The cluster `name`.
///
/// # Errors
/// `ResourceNotFoundException`.
fn find<'s>(settings: &'s AccountSettings, name: &str) -> Result<&'s Cluster, ApiError> {
    let unknown = || ApiError::new("ResourceNotFoundException", format!("No cluster found for name: {name}."));
    settings.clusters.iter().find(|cluster| cluster.name == name).ok_or_else(unknown)
}

pub(crate) fn describe(settings: &AccountSettings, name: &str) -> Result<Value, ApiError> {
    let cluster = find(settings, name)?;
    let subnets: Vec<&str> = settings.subnets.iter().map(|subnet| subnet.id.as_str()).collect();
    let vpc = settings.subnets.first().map(|subnet| subnet.vpc.as_str());
    Ok(json!({ "cluster": {
        "name": cluster.name,
        "arn": format!("arn:aws:eks:{}:{}:cluster/{name}", settings.region, settings.account),
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "status": "ACTIVE",
        "certificateAuthority": { "data": cluster.certificate_authority },
        "kubernetesNetworkConfig": { "serviceIpv4Cidr": cluster.service_cidr, "ipFamily": "ipv4" },
        "resourcesVpcConfig": { "subnetIds": subnets, "vpcId": vpc },
        "accessConfig": { "authenticationMode": cluster.authentication_mode },
    } }))
}

pub(crate) fn list_access_entries(
    settings: &AccountSettings,
    name: &str,
    (size, token): (Option<usize>, Option<&str>),
    limit: Option<usize>,
) -> Result<Value, ApiError> {
    let entries = &find(settings, name)?.access_entries;
    let page = PageRequest::new(Some(size.unwrap_or(PAGE)), token, limit)
        .map_err(|error| ApiError::new("InvalidParameterException", error.message))?;
    let (page, token) = page.take_by_position(entries);
    Ok(json!({ "accessEntries": page, "nextToken": token }))
}

pub(crate) fn describe_access_entry(
    settings: &AccountSettings,
    name: &str,
    principal: &str,
) -> Result<Value, ApiError> {
    let unknown = || {
        let message = format!("The specified principalArn could not be found: {principal}");
        ApiError::new("ResourceNotFoundException", message)
    };
    let entries = &find(settings, name)?.access_entries;
    let arn = entries.iter().find(|entry| *entry == principal).ok_or_else(unknown)?;
    Ok(json!({ "accessEntry": {
        "clusterName": name,
        "principalArn": arn,
        "type": "EC2_LINUX",
        "kubernetesGroups": ["system:nodes"],
        "username": "system:node:{{EC2PrivateDNSName}}",
    } }))
}
