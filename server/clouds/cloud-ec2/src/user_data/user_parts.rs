//! The parts of a MIME document that `spec.userData` of AL2023 is.

use serde::Deserialize;

use super::input::{MAX_BYTES, UserDataError};
use super::mime::{self, Part};

/// The parts of `spec.userData`: those of a MIME document, a NodeConfig, or a script.
///
/// # Errors
/// [`UserDataError::TooLong`], or [`UserDataError::Malformed`] for a MIME document or NodeConfig.
pub(super) fn read(user_data: &str) -> Result<Vec<Part>, UserDataError> {
    let text = user_data.replace('\r', "");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // It is longer than the result may be, and is not searched for boundaries and YAML.
    if text.len() > MAX_BYTES {
        return Err(UserDataError::TooLong { bytes: text.len() });
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    if mime::is_document(text) {
        return mime::parse(text);
    }
    let part = if is_node_config(text)? { Part::node_config } else { Part::shell_script };
    Ok(vec![part(text.to_owned())])
}

/// The field of a YAML document that says what it is.
#[derive(Debug, Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

/// Whether `text` is a NodeConfig. Many scripts are YAML mappings as well (`echo "a: b"`), so the
/// kind decides.
///
/// # Errors
/// [`UserDataError::Malformed`] for a NodeConfig that cannot be read, or one of several documents:
/// nodeadm reads only the first.
fn is_node_config(text: &str) -> Result<bool, UserDataError> {
    if text.starts_with("#!") {
        return Ok(false);
    }
    let malformed = |problem: String| UserDataError::Malformed { format: "YAML", problem };
    let names_kind = text.lines().any(|line| line.trim_end() == "kind: NodeConfig");
    match serde_saphyr::from_multiple::<Kind>(text) {
        Ok(documents) => {
            let is_any = documents.iter().any(|document| document.kind == "NodeConfig");
            if is_any && documents.len() > 1 {
                let problem = "nodeadm reads one document; write several NodeConfigs as parts of a MIME document";
                return Err(malformed(problem.to_owned()));
            }
            Ok(is_any)
        }
        Err(_) if !names_kind => Ok(false),
        Err(error) => {
            let problem = error.without_snippet().to_string();
            let problem = problem.lines().next().unwrap_or_default();
            Err(malformed(format!("{problem} (a script begins with #!)")))
        }
    }
}
