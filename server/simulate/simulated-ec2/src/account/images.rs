//! DescribeImages.

use super::context::{Context, iso};
use super::launch_templates::tag_set;
use super::region::Region;
use crate::api_error::ApiError;
use crate::query::filters::Filters;
use crate::settings::Image;
use crate::value::Fields;

const FILTERS: [&str; 6] = ["architecture", "image-id", "name", "owner-id", "owner-alias", "state"];

/// DescribeImages. Deprecated images of others are left out unless the call asks for them or names them by id.
pub(crate) fn describe(region: &Region, call: &Context<'_>) -> Result<Fields, ApiError> {
    let filters = Filters::read(call.parameters, &FILTERS, true)?;
    let (ids, owners) = (call.parameters.list("ImageId"), call.parameters.list("Owner"));
    for id in &ids {
        let unknown = || ApiError::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist"));
        region.image(id).ok_or_else(unknown)?;
    }
    let account = &region.settings().account;
    let now = iso(call.now);
    let with_deprecated = call.parameters.is_true("IncludeDeprecated");
    let passes = |image: &&Image| {
        let is_named = ids.contains(&image.id.as_str());
        let is_deprecated = image.deprecated.as_ref().is_some_and(|at| *at <= now);
        let is_hidden = is_deprecated && !with_deprecated && !is_named && image.owner != *account;
        let owned = |owner: &&str| match *owner {
            "self" => image.owner == *account,
            other => image.owner == other || image.owner_alias.as_deref() == Some(other),
        };
        (ids.is_empty() || is_named)
            && !is_hidden
            && (owners.is_empty() || owners.iter().any(owned))
            && filters.pass(&image.tags, |name| field(image, name))
    };
    let (page, token) = call.page()?.take_by_position(region.settings().images.iter().filter(passes));
    Ok(Fields::new().list("imagesSet", page.into_iter().map(shown)).maybe("nextToken", token))
}

fn field(image: &Image, name: &str) -> Vec<String> {
    let value = match name {
        "architecture" => Some(image.architecture.clone()),
        "image-id" => Some(image.id.clone()),
        "name" => Some(image.name.clone()),
        "owner-id" => Some(image.owner.clone()),
        "owner-alias" => image.owner_alias.clone(),
        _ => Some(image.state.clone()),
    };
    value.into_iter().collect()
}

fn shown(image: &Image) -> Fields {
    Fields::new()
        .with("imageId", &image.id)
        .with("imageLocation", format!("{}/{}", image.owner_alias.as_ref().unwrap_or(&image.owner), image.name))
        .with("imageState", &image.state)
        .with("imageOwnerId", &image.owner)
        .maybe("imageOwnerAlias", image.owner_alias.as_ref())
        .with("creationDate", &image.created)
        .with("isPublic", image.owner_alias.is_some())
        .with("architecture", &image.architecture)
        .with("imageType", "machine")
        .with("name", &image.name)
        .with("rootDeviceType", "ebs")
        .with("virtualizationType", "hvm")
        .maybe("deprecationTime", image.deprecated.as_ref())
        .with("tagSet", tag_set(&image.tags))
}
