//! Pictures: which of them models take, told from their first bytes. Pure.

/// A larger picture is refused: in Base64 it would be more than the five megabytes that all providers take.
pub const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// A picture with a longer side is refused by providers.
const SIDE_MAX: u32 = 8_000;

/// The media type of a picture that models take, by the first bytes of its file.
pub fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The media type of a whole picture that can be sent to a model, or why it cannot and what to do.
///
/// A provider that refuses a picture refuses every later request of the conversation as well, so this is strict.
pub fn check_image(bytes: &[u8]) -> Result<&'static str, String> {
    let media_type =
        image_type(bytes).ok_or("it is not a PNG, JPEG, GIF or WebP picture: convert it to one of them")?;
    check_size(bytes.len() as u64)?;
    let (width, height) = dimensions(bytes).ok_or_else(|| {
        format!("it begins like {media_type}, but its header is damaged or cut off: make or fetch it again")
    })?;
    if width.max(height) > SIDE_MAX {
        return Err(format!(
            "it is {width} x {height} pixels, and models take at most {SIDE_MAX} on a side: scale it down first, \
             e.g. with `magick`"
        ));
    }
    Ok(media_type)
}

/// Whether a picture of so many bytes can be sent; known before it is read.
pub(crate) fn check_size(bytes: u64) -> Result<(), String> {
    if bytes > IMAGE_BYTES_MAX {
        return Err(format!(
            "it is a picture of {bytes} bytes, and models take at most {IMAGE_BYTES_MAX}: scale it down first, \
             e.g. with `magick`"
        ));
    }
    Ok(())
}

/// Width and height, as the header tells them.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let found = match image_type(bytes)? {
        "image/png" => (bytes.get(12..16)? == b"IHDR").then_some((big(bytes, 16, 4)?, big(bytes, 20, 4)?)),
        "image/gif" => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
        "image/webp" => webp(bytes),
        _ => jpeg(bytes),
    };
    found.filter(|(width, height)| *width > 0 && *height > 0)
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    const SIDE_BITS: u32 = 0x3fff;
    match bytes.get(12..16)? {
        b"VP8 " if bytes.get(23..26)? == [0x9d, 0x01, 0x2a] => {
            Some((little(bytes, 26, 2)? & SIDE_BITS, little(bytes, 28, 2)? & SIDE_BITS))
        }
        b"VP8L" if *bytes.get(20)? == 0x2f => {
            let packed = little(bytes, 21, 4)?;
            Some(((packed & SIDE_BITS) + 1, ((packed >> 14) & SIDE_BITS) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// Goes from segment to segment until the one that has the size.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            // Padding before a marker, and markers that have no contents.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            // The start of the frame, except for three that have other things in this range.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            // The pixels, or the end: no frame came before.
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::try_from(big(bytes, at + 2, 2)?).ok()?,
        }
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes()].concat()
    }

    #[test]
    fn sizes_are_read_from_headers() {
        let samples: [(&[u8], (u32, u32)); 7] = [
            (&png(640, 480), (640, 480)),
            (b"GIF89a\x80\x02\xe0\x01", (640, 480)),
            (b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x41", (640, 480)),
            (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x7f\xc2\x77\x00", (640, 480)),
            (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x7f\x02\x00\xdf\x01\x00", (640, 480)),
            (b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x02\xff\xc2\0\x11\x08\x01\xe0\x02\x80", (640, 480)),
            (b"\xff\xd8\xff\xc0\0\x11\x08\x00\x01\x00\x02", (2, 1)),
        ];
        for (bytes, size) in samples {
            assert_eq!(dimensions(bytes), Some(size), "{bytes:?}");
            assert_eq!(dimensions(&bytes[..bytes.len() - 1]), None, "cut off: {bytes:?}");
            assert_eq!(check_image(bytes), Ok(image_type(bytes).unwrap()));
        }
    }

    #[test]
    fn what_models_refuse_is_refused_here() {
        assert_eq!(check_image(&png(8_000, 8_000)), Ok("image/png"));
        assert!(check_image(&png(8_001, 1)).unwrap_err().contains("8001 x 1 pixels"));
        assert!(check_image(&png(0, 5)).unwrap_err().contains("damaged"));
        assert!(check_image(b"\x89PNG\r\n\x1a\n").unwrap_err().contains("damaged"));
        assert!(check_image(b"\xff\xd8\xff\xda\0\x02").unwrap_err().contains("damaged"));
        assert!(check_image(b"<svg/>").unwrap_err().contains("convert"));
        let mut large = png(10, 10);
        large.resize(3_750_000, 0);
        assert_eq!(check_image(&large), Ok("image/png"));
        large.push(0);
        assert!(check_image(&large).unwrap_err().contains("3750001 bytes"));
    }

    proptest! {
        #[test]
        fn any_bytes_get_an_answer(start in prop::sample::select(vec![&b"\xff\xd8\xff"[..], b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "]), rest in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff), Just(0xc0)], 0..60)) {
            let _ = check_image(&[start, &rest].concat());
        }
    }
}
