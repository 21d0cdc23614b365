//! Blobs: hashes and compression.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

use super::codec::DecodeError;
use store::log::{Blob, BlobHash};

/// Maximum decompressed size, in bytes: several times a cluster of 100,000 pods. A larger text was
/// not written by this program.
const LARGEST: u64 = 512 << 20;

/// Prefix of uncompressed bytes. No DEFLATE stream begins so: bits 1 and 2 would be a reserved
/// block type (RFC 1951, 3.2.3).
const PLAIN: u8 = 0b110;

/// Up to this size bytes stay uncompressed: alone they compress badly, and the store compresses
/// them with a dictionary.
const SMALL: usize = 8 << 10;

/// SHA-256 of `bytes`.
pub(super) fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of the concatenated `parts`. Each part has a fixed length or the first part describes
/// the rest.
pub(super) fn hash_all<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.into_iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// Compresses `bytes`.
pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::default());
    // Writing to memory cannot fail; a truncated text would be detected by its hash.
    let _always_taken = packer.write_all(bytes);
    packer.finish().unwrap_or_default()
}

/// Prepares `bytes` for a row: compressed, or plain when the store compresses them better.
pub(super) fn pack_unless_small(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > SMALL { pack(bytes) } else { [&[PLAIN], bytes].concat() }
}

/// Inverse of [`pack`] and [`pack_unless_small`].
///
/// # Errors
/// When the bytes were not written by this program.
pub(super) fn unpack(packed: &[u8]) -> Result<Vec<u8>, DecodeError> {
    if let Some((&PLAIN, plain)) = packed.split_first() {
        return Ok(plain.to_vec());
    }
    let mut bytes = Vec::with_capacity(packed.len().saturating_mul(3));
    let mut unpacker = DeflateDecoder::new(packed);
    let read = unpacker.by_ref().take(LARGEST).read_to_end(&mut bytes);
    let whole = read.is_ok() && unpacker.total_in() == packed.len() as u64;
    if whole { Ok(bytes) } else { Err(DecodeError("a packed content")) }
}

/// `bytes` as a blob.
pub(super) fn blob(kind: &str, bytes: &[u8]) -> Blob {
    Blob { hash: BlobHash(hash(bytes)), kind: kind.to_owned(), bytes: pack(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_unpack_and_other_bytes_are_rejected() {
        let text = b"the same words and the same words again".repeat(20);
        let packed = pack(&text);
        assert!(packed.len() * 5 < text.len(), "{} of {}", packed.len(), text.len());
        assert_eq!(unpack(&packed), Ok(text));
        assert!(unpack(&[0xff; 8]).is_err());
        assert!(unpack(&[packed, vec![0]].concat()).is_err(), "trailing bytes");
    }

    #[test]
    fn small_contents_stay_plain_and_large_ones_are_packed() {
        assert_eq!(pack_unless_small(b"few"), [0b110, b'f', b'e', b'w']);
        for bytes in [Vec::new(), vec![7; SMALL], vec![7; SMALL + 1]] {
            let folded = pack_unless_small(&bytes);
            assert_eq!(folded.first() == Some(&PLAIN), bytes.len() <= SMALL);
            assert_eq!(unpack(&folded), Ok(bytes));
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        // FIPS 180-2, appendix B.1: the hash of "abc" begins with ba7816bf 8f01.
        assert_eq!(hash(b"abc")[..6], [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01]);
        assert_eq!(hash_all([&b"a"[..], b"bc"]), hash(b"abc"));
    }
}
