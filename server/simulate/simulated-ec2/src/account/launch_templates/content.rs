//! What EC2 checks in a launch template when it is created. References to other things are checked at the launch.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api_error::ApiError;
use crate::query::parameters::Parameters;

/// Maximum length of user data, decoded (EC2: user data).
const MAX_USER_DATA: usize = 16_384;

/// Beginnings of the parameters of `LaunchTemplateData` that a launch here understands.
const KNOWN: [&str; 14] = [
    "BlockDeviceMapping.",
    "CapacityReservationSpecification.",
    "CpuOptions.",
    "EbsOptimized",
    "EnclaveOptions.",
    "IamInstanceProfile.",
    "ImageId",
    "InstanceMarketOptions.MarketType",
    "InstanceType",
    "MetadataOptions.",
    "Monitoring.",
    "NetworkInterface.",
    "Placement.",
    "SecurityGroupId.",
];
/// Likewise, with values that are checked.
const CHECKED: [&str; 2] = ["UserData", "TagSpecification."];

/// Values that EC2 accepts, by the end of the parameter's name.
const VALUES: [(&str, &[&str]); 6] = [
    ("MetadataOptions.HttpTokens", &["optional", "required"]),
    ("MetadataOptions.HttpEndpoint", &["enabled", "disabled"]),
    ("MetadataOptions.InstanceMetadataTags", &["enabled", "disabled"]),
    ("CapacityReservationPreference", &["open", "none", "capacity-reservations-only"]),
    ("Ebs.VolumeType", &["standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"]),
    ("Placement.Tenancy", &["default", "dedicated", "host"]),
];

/// Resources whose tags a template may have.
const TAGGED: [&str; 4] = ["instance", "volume", "network-interface", "spot-instances-request"];

/// Checks the content of a template.
///
/// # Errors
/// The code and message of EC2 for content that it refuses, and `InvalidParameter` for a parameter that nothing
/// here understands.
pub(crate) fn check(data: &Parameters) -> Result<(), ApiError> {
    if data.values().is_empty() {
        return Err(ApiError::missing("LaunchTemplateData"));
    }
    for (name, value) in data.values() {
        check_parameter(name, value)?;
    }
    let interfaces = data.structures("NetworkInterface");
    if !interfaces.is_empty() && !data.list("SecurityGroupId").is_empty() {
        let message =
            "Network interfaces and an instance-level security groups may not be specified on the same request";
        return Err(ApiError::new("InvalidParameterCombination", message));
    }
    let public = interfaces.iter().any(|interface| interface.is_true("AssociatePublicIpAddress"));
    if public && interfaces.len() > 1 {
        let message = "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.";
        return Err(ApiError::new("InvalidParameterCombination", message));
    }
    data.get("UserData").map_or(Ok(()), check_user_data)
}

fn check_parameter(name: &str, value: &str) -> Result<(), ApiError> {
    let begins = |known: &&str| *name == **known || known.ends_with('.') && name.starts_with(*known);
    if !KNOWN.iter().chain(&CHECKED).any(begins) {
        return Err(ApiError::new(
            "InvalidParameter",
            format!("The simulation has no launch template parameter {name}"),
        ));
    }
    let allowed = VALUES.iter().find(|(end, _)| name.ends_with(end));
    if allowed.is_some_and(|(_, values)| !values.contains(&value)) {
        return Err(ApiError::invalid(name, value));
    }
    let is_resource = name.starts_with("TagSpecification.") && name.ends_with(".ResourceType");
    if is_resource && !TAGGED.contains(&value) {
        return Err(ApiError::new(
            "InvalidParameterValue",
            format!("'{value}' is not a valid taggable resource type."),
        ));
    }
    if name == "ImageId" && !value.starts_with("ami-") {
        return Err(ApiError::new(
            "InvalidAMIID.Malformed",
            format!("Invalid id: \"{value}\" (expecting \"ami-...\")"),
        ));
    }
    Ok(())
}

/// Checks user data in base64.
///
/// # Errors
/// `InvalidUserData.Malformed` and `InvalidParameterValue`, as EC2.
fn check_user_data(encoded: &str) -> Result<(), ApiError> {
    let malformed = |_| ApiError::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
    let decoded = STANDARD.decode(encoded).map_err(malformed)?;
    if decoded.len() > MAX_USER_DATA {
        return Err(ApiError::new("InvalidParameterValue", format!("User data is limited to {MAX_USER_DATA} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(form: &str) -> Result<(), String> {
        check(&Parameters::read(form.as_bytes())).map_err(|error| error.code)
    }

    #[test]
    fn content_is_checked_as_ec2_does() {
        let limit = "A".repeat(21_848); // 16,386 bytes
        for (form, refused) in [
            ("ImageId=ami-1&UserData=dGVzdA%3D%3D&MetadataOptions.HttpTokens=required", None),
            ("", Some("MissingParameter")),
            ("ImageId=img-1", Some("InvalidAMIID.Malformed")),
            ("UserData=%21", Some("InvalidUserData.Malformed")),
            (&format!("UserData={limit}"), Some("InvalidParameterValue")),
            ("MetadataOptions.HttpTokens=yes", Some("InvalidParameterValue")),
            ("BlockDeviceMapping.1.Ebs.VolumeType=gp9", Some("InvalidParameterValue")),
            ("SecurityGroupId.1=sg-1&NetworkInterface.1.DeviceIndex=0", Some("InvalidParameterCombination")),
            (
                "NetworkInterface.1.AssociatePublicIpAddress=true&NetworkInterface.2.DeviceIndex=1",
                Some("InvalidParameterCombination"),
            ),
            ("TagSpecification.1.ResourceType=fleet", Some("InvalidParameterValue")),
            ("Metadata.HttpTokens=required", Some("InvalidParameter")),
        ] {
            assert_eq!(code(form), refused.map_or(Ok(()), |code| Err(code.to_owned())), "{:.60}", form);
        }
    }
}
