//! Contents, their hashes, and their packed form.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sha2::{Digest, Sha256};

use super::codec::Corrupt;
use crate::store::log::{Blob, BlobHash};

/// The largest content that is unpacked, in bytes: several times a cluster of 100,000 pods. A packed text that unfolds to
/// more is no content of ours.
const LARGEST: u64 = 512 << 20;

/// Before bytes that are not packed. Packed ones never begin so: the bits 1 and 2 would say a block of a type that is none (RFC
/// 1951, 3.2.3).
const PLAIN: u8 = 0b110;

/// What takes so many bytes is small: alone it is packed badly, and the store packs it after others of its kind.
const SMALL: usize = 8 << 10;

/// SHA-256 of `bytes`.
pub(super) fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of all `parts`, one after the other. Parts are of fixed length or the first of them says what follows.
pub(super) fn hash_all<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.into_iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// `bytes` made small.
pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::default());
    // Memory takes every byte; what would be cut off here is found by its hash when it is read.
    let _always_taken = packer.write_all(bytes);
    packer.finish().unwrap_or_default()
}

/// `bytes` for a row: packed, or as they are when the store packs them better.
pub(super) fn fold(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > SMALL { pack(bytes) } else { [&[PLAIN], bytes].concat() }
}

/// What [`pack`] or [`fold`] was given.
///
/// # Errors
/// When it is none of ours.
pub(super) fn unpack(packed: &[u8]) -> Result<Vec<u8>, Corrupt> {
    if let Some((&PLAIN, plain)) = packed.split_first() {
        return Ok(plain.to_vec());
    }
    let mut bytes = Vec::with_capacity(packed.len().saturating_mul(3));
    let mut unpacker = DeflateDecoder::new(packed);
    let read = unpacker.by_ref().take(LARGEST).read_to_end(&mut bytes);
    let whole = read.is_ok() && unpacker.total_in() == packed.len() as u64;
    if whole { Ok(bytes) } else { Err(Corrupt("a packed content")) }
}

/// `bytes` as a content that many decisions share.
pub(super) fn blob(kind: &str, bytes: &[u8]) -> Blob {
    Blob { hash: BlobHash(hash(bytes)), kind: kind.to_owned(), bytes: pack(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back_and_other_bytes_do_not() {
        let text = b"the same words and the same words again".repeat(20);
        let packed = pack(&text);
        assert!(packed.len() * 5 < text.len(), "{} of {}", packed.len(), text.len());
        assert_eq!(unpack(&packed), Ok(text));
        assert!(unpack(&[0xff; 8]).is_err());
        assert!(unpack(&[packed, vec![0]].concat()).is_err(), "something follows");
    }

    #[test]
    fn what_is_small_stays_plain_and_what_is_large_does_not() {
        assert_eq!(fold(b"few"), [0b110, b'f', b'e', b'w']);
        for bytes in [Vec::new(), vec![7; SMALL], vec![7; SMALL + 1]] {
            let folded = fold(&bytes);
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
