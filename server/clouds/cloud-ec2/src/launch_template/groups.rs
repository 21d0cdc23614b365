//! From an order to its launch templates.

use std::collections::BTreeMap;

use cloud::provider::LaunchRequest;
use model::{InstanceTypeInput, InstanceTypeName, LaunchTemplateInput, Text};

use super::content::{TemplateContent, Unlaunchable};
use super::devices;

/// One launch template of an order, and the instance types that are launched from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateGroup {
    pub(crate) content: TemplateContent,
    pub(crate) instance_types: Vec<InstanceTypeName>,
}

/// The templates of `request`, in the order of their first instance types. Instance types without an
/// image are left out.
///
/// # Errors
/// [`Unlaunchable`] when the user data cannot be made, or the NodeClass has no profile, no security
/// group or no image for these types, or the reservation cannot be used.
pub(crate) fn groups(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
    region: &str,
) -> Result<Vec<TemplateGroup>, Unlaunchable> {
    let mut known: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let mut found: Vec<TemplateGroup> = Vec::new();
    for option in &request.overrides {
        let Some(kind) = input.instance_types.get(&option.instance_type) else { continue };
        let at = match known.get(&GroupKey::of(kind, input)) {
            Some(at) => *at,
            None => {
                let content = TemplateContent::of(request, input, kind, region)?;
                found.push(TemplateGroup { content, instance_types: Vec::new() });
                known.insert(GroupKey::of(kind, input), found.len() - 1);
                found.len() - 1
            }
        };
        if !found[at].instance_types.contains(&option.instance_type) {
            found[at].instance_types.push(option.instance_type.clone());
        }
    }
    if found.is_empty() {
        return Err(Unlaunchable {
            code: "ImageNotFound",
            message: format!(
                "EC2NodeClass {} selects no image that boots one of the {} instance types of the order; see its \
                 status.amis and amiSelectorTerms",
                request.node_class,
                input.instance_types.len().max(1)
            ),
        });
    }
    Ok(found)
}

/// What instance types with one template share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    image: Text,
    max_pods: u32,
    efa: u32,
}

impl GroupKey {
    fn of(kind: &InstanceTypeInput, input: &LaunchTemplateInput) -> Self {
        Self { image: kind.image.clone(), max_pods: kind.max_pods, efa: devices::efa_interfaces(kind, input) }
    }
}
