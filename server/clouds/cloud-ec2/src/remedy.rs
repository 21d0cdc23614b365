//! What an operator has to do about a refusal of EC2.

/// Refusals that end by themselves have no remedy. A row is a part of the code, a part of the message, and the remedy; the
/// first row that matches is the result (EC2: error codes, and the messages that Karpenter's AWS provider tells apart).
const REMEDIES: &[(&str, &str, &str)] = &[
    (
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        "",
        "create the role of spot instances once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    ("VcpuLimitExceeded", "", "request a higher vCPU quota of on-demand instances in Service Quotas"),
    (
        "MaxSpotInstanceCountExceeded",
        "",
        "request a higher vCPU quota of spot instances in Service Quotas, or allow on-demand in the NodePool",
    ),
    ("MaxFleetCountExceeded", "", "request a higher quota of EC2 Fleets in Service Quotas"),
    (
        "InsufficientFreeAddressesInSubnet",
        "",
        "add larger subnets to spec.subnetSelectorTerms of the EC2NodeClass, or free addresses",
    ),
    ("ReservationCapacityExceeded", "", "extend the capacity reservation, or allow on-demand in the NodePool"),
    ("", "Not authorized for images", "share the image with this account, or correct spec.amiSelectorTerms"),
    ("UnauthorizedOperation", "", RIGHTS),
    ("AccessDenied", "", RIGHTS),
    ("AuthFailure", "", "check the credentials of the server"),
    (
        "InvalidParameter",
        "belong to different networks",
        "select subnets and security groups of one VPC in the EC2NodeClass",
    ),
    ("", "iamInstanceProfile.name is invalid", "correct spec.role or spec.instanceProfile of the EC2NodeClass"),
    ("", "User data is limited to", "shorten spec.userData of the EC2NodeClass"),
    ("", "not eligible for Free Tier", "allow types of the free tier in the NodePool, or leave the free plan"),
    ("InvalidAMIID", "", "select an image of this region in spec.amiSelectorTerms of the EC2NodeClass"),
    ("InvalidSubnet", "", "correct spec.subnetSelectorTerms of the EC2NodeClass: the subnet does not exist any more"),
    (
        "InvalidGroup",
        "",
        "correct spec.securityGroupSelectorTerms of the EC2NodeClass: the group does not exist any more",
    ),
    (
        "InvalidCapacityReservation",
        "",
        "correct spec.capacityReservationSelectorTerms of the EC2NodeClass: the reservation has ended",
    ),
    ("InvalidBlockDeviceMapping", "", "correct spec.blockDeviceMappings of the EC2NodeClass"),
    ("OptInRequired", "", "accept the terms of the image in AWS Marketplace, or enable the service for this account"),
    ("PendingVerification", "", "wait until AWS has verified the account for this region, at most four hours"),
];

const RIGHTS: &str = "allow the action in the policy of the server's role (deploy/aws), and check permission boundaries \
                      and service control policies";

/// The remedy for a refusal with this code and message, as a clause; `None` when there is nothing to do but to wait, or
/// when the message has to say it.
pub(crate) fn remedy(code: &str, message: &str) -> Option<&'static str> {
    let row = REMEDIES.iter().find(|(part, words, _)| code.contains(part) && message.contains(words));
    row.map(|(_, _, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_that_an_operator_can_mend_says_how() {
        for (code, message, words) in [
            ("VcpuLimitExceeded", "", "vCPU quota of on-demand"),
            ("MaxSpotInstanceCountExceeded", "", "vCPU quota of spot"),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", "create-service-linked-role"),
            ("InsufficientFreeAddressesInSubnet", "", "spec.subnetSelectorTerms"),
            ("UnauthorizedOperation", "You are not authorized to perform this operation.", "deploy/aws"),
            ("AuthFailure", "Not authorized for images: [ami-1]", "share the image"),
            ("AuthFailure", "AWS was not able to validate the provided access credentials", "credentials"),
            ("InvalidParameterValue", "Value (p) for parameter iamInstanceProfile.name is invalid", "spec.role"),
            ("InvalidParameter", "sg-1 and subnet-1 belong to different networks", "of one VPC"),
            ("InvalidParameterValue", "User data is limited to 16384 bytes", "spec.userData"),
            ("InvalidAMIID.NotFound", "The image id '[ami-1]' does not exist", "spec.amiSelectorTerms"),
            ("PendingVerification", "", "four hours"),
        ] {
            assert!(
                remedy(code, message).is_some_and(|found| found.contains(words)),
                "{code}: {:?}",
                remedy(code, message)
            );
        }
    }

    #[test]
    fn a_refusal_that_ends_by_itself_has_no_remedy() {
        for code in ["InsufficientInstanceCapacity", "UnfulfillableCapacity", "RequestLimitExceeded", "InternalError"] {
            assert_eq!(remedy(code, "Insufficient capacity."), None, "{code}");
        }
    }
}
