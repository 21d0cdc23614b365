//! The hash function of annotations.

use model::Text;

/// FNV-1a of 64 bits: equal on every machine and in every release.
pub(crate) struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Adds texts with their lengths, so that no two lists of texts are written alike.
    pub(crate) fn texts<const N: usize>(&mut self, texts: [&str; N]) {
        for text in texts {
            self.number(text.len());
            self.bytes(text.as_bytes());
        }
    }

    pub(crate) fn number(&mut self, number: usize) {
        self.bytes(&u64::try_from(number).unwrap_or(u64::MAX).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The hash, as 16 hexadecimal digits.
    pub(crate) fn hex(&self) -> Text {
        Text::from(format!("{:016x}", self.0))
    }
}
