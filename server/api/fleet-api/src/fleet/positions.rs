//! Resume tokens: the position of a watch in the change log of each replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tonic::Status;

use api_messages::errors;

/// Longest token that is read; a position of a replica takes some 100 bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// Positions by the instance of the replica.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Positions(BTreeMap<Arc<str>, u64>);

impl Positions {
    pub fn of(instance: &Arc<str>, position: u64) -> Self {
        Self([(Arc::clone(instance), position)].into())
    }

    /// The positions of a token.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is none.
    pub fn parse(token: &str) -> Result<Self, Status> {
        let refused = || {
            let sentence = "resume_token is none: pass that of a list, or of the last message of a watch";
            errors::invalid_argument("resume_token", sentence)
        };
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Err(refused());
        }
        let text =
            URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
        let position = |line: &str| {
            let (instance, position) = line.rsplit_once(' ')?;
            Some((Arc::from(instance), position.parse().ok()?))
        };
        text.lines().map(position).collect::<Option<_>>().map(Self).ok_or_else(refused)
    }

    pub fn token(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(|(instance, position)| format!("{instance} {position}")).collect();
        URL_SAFE_NO_PAD.encode(lines.join("\n"))
    }

    /// The position in the log of a replica; its beginning if there is none.
    pub fn get(&self, instance: &str) -> u64 {
        self.0.get(instance).copied().unwrap_or(0)
    }

    /// Moves to the positions that `other` has.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_garbage_is_refused() {
        let mut positions = Positions::of(&"fleetwright-0 a/7f3".into(), 41);
        positions.extend(Positions::of(&"b/1".into(), 3));
        assert_eq!(Positions::parse(&positions.token()).unwrap(), positions);
        assert_eq!((positions.get("b/1"), positions.get("c")), (3, 0));
        for token in
            ["", "x", "*", &"A".repeat(20_000), &URL_SAFE_NO_PAD.encode("b/1"), &URL_SAFE_NO_PAD.encode("b/1 -1")]
        {
            assert_eq!(Positions::parse(token).unwrap_err().code(), tonic::Code::InvalidArgument, "{token:.20}");
        }
    }
}
