//! Versions of Bottlerocket images.

/// The first version whose `apiclient ephemeral-storage bind` needs no directories.
const DEFAULT_DIRECTORIES: (u32, u32, u32) = (1, 46, 0);

/// Whether the image has default directories for local disks. `image` is a version (`1.46.0`), an
/// alias (`bottlerocket@v1.46.0`) or the name of an image
/// (`bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-0d8a6d1c`). An unknown version has none.
pub(super) fn has_default_directories(image: &str) -> bool {
    image.rsplit(['@', '-']).find_map(parse).is_some_and(|version| version >= DEFAULT_DIRECTORIES)
}

fn parse(text: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.').map(|number| number.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    numbers.next().is_none().then_some(version)
}
