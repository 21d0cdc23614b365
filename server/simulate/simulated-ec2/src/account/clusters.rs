//! What a node learns of its cluster and its image. EKS: DescribeCluster, DescribeAccessEntry; SSM: GetParameter.

use serde_json::{Value, json};

use super::context::Context;
use crate::api_error::ApiError;
use crate::settings::{AccountSettings, Cluster};

/// The cluster that the call names.
///
/// # Errors
/// `ResourceNotFoundException`.
fn find<'s>(settings: &'s AccountSettings, call: &Context<'_>) -> Result<&'s Cluster, ApiError> {
    let name = call.required("name")?;
    let unknown = || ApiError::new("ResourceNotFoundException", format!("No cluster found for name: {name}."));
    settings.clusters.iter().find(|cluster| cluster.name == name).ok_or_else(unknown)
}

pub(crate) fn describe(settings: &AccountSettings, call: &Context<'_>) -> Result<Value, ApiError> {
    let cluster = find(settings, call)?;
    Ok(json!({ "cluster": {
        "name": cluster.name,
        "arn": format!("arn:aws:eks:{}:{}:cluster/{}", settings.region, settings.account, cluster.name),
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "status": "ACTIVE",
        "certificateAuthority": { "data": cluster.certificate_authority },
        "kubernetesNetworkConfig": { "serviceIpv4Cidr": cluster.service_cidr, "ipFamily": "ipv4" },
        "accessConfig": { "authenticationMode": cluster.authentication_mode },
    } }))
}

pub(crate) fn describe_access_entry(settings: &AccountSettings, call: &Context<'_>) -> Result<Value, ApiError> {
    let (cluster, principal) = (find(settings, call)?, call.required("principalArn")?);
    if !cluster.access_entries.iter().any(|entry| entry == principal) {
        let message = format!("The specified principalArn could not be found: {principal}");
        return Err(ApiError::new("ResourceNotFoundException", message));
    }
    Ok(json!({ "accessEntry": {
        "clusterName": cluster.name,
        "principalArn": principal,
        "type": "EC2_LINUX",
        "kubernetesGroups": ["system:nodes"],
        "username": "system:node:{{EC2PrivateDNSName}}",
    } }))
}

pub(crate) fn get_parameter(settings: &AccountSettings, call: &Context<'_>) -> Result<Value, ApiError> {
    let name = call.required("Name")?;
    let value = settings.parameters.get(name).ok_or_else(|| ApiError::new("ParameterNotFound", ""))?;
    Ok(json!({ "Parameter": { "Name": name, "Type": "String", "Value": value, "Version": 1, "DataType": "text" } }))
}
