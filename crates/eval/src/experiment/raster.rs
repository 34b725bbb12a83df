//! Pictures as pixels: what lines and letters become, and the PNG of it.
//!
//! The library that draws knows shapes and asks for pixels; letters come from a font of this
//! machine, so that none has to be shipped.

use std::convert::Infallible;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use ab_glyph::{Font as _, FontVec, PxScale, ScaleFont as _, point};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// Letters without serifs.
pub struct Font(FontVec);

/// Where systems keep fonts; below the user's home the last one.
const FOLDERS: [&str; 3] = ["/usr/share/fonts", "/usr/local/share/fonts", ".local/share/fonts"];
/// Plain ones that are widespread; any other is taken rather than none.
const PREFERRED: [&str; 4] =
    ["DejaVuSans.ttf", "LiberationSans-Regular.ttf", "NotoSans-Regular.ttf", "Arial.ttf"];
/// Folders of fonts are not nested deeper.
const DEPTH: usize = 6;

impl Font {
    /// A font of this machine.
    pub fn find() -> Result<Font, String> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let folders = FOLDERS.map(|folder| home.join(folder));
        Font::within(&folders).ok_or_else(|| {
            let folders = folders.map(|folder| folder.display().to_string());
            let folders = folders.join(", ");
            format!("no TrueType font in {folders}; on Debian: apt install fonts-dejavu-core")
        })
    }

    fn within(folders: &[PathBuf]) -> Option<Font> {
        let mut files = Vec::new();
        folders.iter().for_each(|folder| fonts(folder, DEPTH, &mut files));
        files.sort_by_cached_key(|path| {
            let name = path.file_name().unwrap_or_default();
            let rank = PREFERRED.iter().position(|known| name == *known);
            (rank.unwrap_or(PREFERRED.len()), path.clone())
        });
        files.iter().find_map(|path| Font::of(&fs::read(path).ok()?))
    }

    /// A font that has the letters we write.
    fn of(bytes: &[u8]) -> Option<Font> {
        let font = FontVec::try_from_vec(bytes.to_vec()).ok()?;
        let has_all = "Az09%".chars().all(|letter| font.glyph_id(letter).0 > 0);
        has_all.then_some(Font(font))
    }
}

fn fonts(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && depth > 0 {
            fonts(&path, depth - 1, files);
        } else if path.extension().is_some_and(|end| end == "ttf") {
            files.push(path);
        }
    }
}

const CHANNELS: usize = 3;

/// White until it is drawn on.
pub struct Canvas<'a> {
    font: &'a Font,
    size: (u32, u32),
    /// Red, green and blue of each, row by row.
    pixels: &'a mut Vec<u8>,
}

impl<'a> Canvas<'a> {
    pub fn new(font: &'a Font, size: (u32, u32), pixels: &'a mut Vec<u8>) -> Canvas<'a> {
        *pixels = vec![0xff; size.0 as usize * size.1 as usize * CHANNELS];
        Canvas { font, size, pixels }
    }

    /// Lays the colour over what is there; what is outside is not seen.
    fn blend(&mut self, (x, y): BackendCoord, color: BackendColor) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let at = (y as usize * self.size.0 as usize + x as usize) * CHANNELS;
        let (red, green, blue) = color.rgb;
        for (own, new) in self.pixels[at..at + CHANNELS].iter_mut().zip([red, green, blue]) {
            let mixed = f64::from(*own) * (1.0 - color.alpha) + f64::from(new) * color.alpha;
            *own = mixed.round() as u8;
        }
    }
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Canvas<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        self.blend(point, color);
        Ok(())
    }

    /// Sizes and places are those of the SVG.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        /// Of the style's size to the height of a line of the font, as in the SVG.
        const LINE: f64 = 1.24;
        /// Of the height, how much the baseline is below the anchor: the top of letters, the
        /// middle of small ones, what hangs below.
        const BASELINES: [f32; 3] = [0.76, 0.26, -0.26];
        let font = &self.font.0;
        let em = (style.size() / LINE) as f32;
        let units = font.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(em * font.height_unscaled() / units);
        let advance = |letter| font.as_scaled(scale).h_advance(font.glyph_id(letter));
        let width: f32 = text.chars().map(advance).sum();
        let mut x = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => -width / 2.0,
            HPos::Right => -width,
        };
        let baseline = em
            * match style.anchor().v_pos {
                VPos::Top => BASELINES[0],
                VPos::Center => BASELINES[1],
                VPos::Bottom => BASELINES[2],
            };
        let (color, turned) = (style.color(), style.transform());
        for letter in text.chars() {
            let placed = point(x, baseline);
            let glyph = font.glyph_id(letter).with_scale_and_position(scale, placed);
            x += advance(letter);
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let corner = outline.px_bounds().min;
            outline.draw(|right, down, cover| {
                let own = (corner.x as i32 + right as i32, corner.y as i32 + down as i32);
                let own = turned.transform(own.0, own.1);
                let alpha = color.alpha * f64::from(cover.min(1.0));
                self.blend((at.0 + own.0, at.1 + own.1), BackendColor { alpha, ..color });
            });
        }
        Ok(())
    }
}

/// The picture as a file (RFC 2083): eight bits a channel, no filter.
pub fn png((width, height): (u32, u32), pixels: &[u8]) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    for row in pixels.chunks(width as usize * CHANNELS) {
        let filter = [0];
        packed.write_all(&filter).and_then(|()| packed.write_all(row)).expect("memory takes it");
    }
    let packed = packed.finish().expect("memory takes it");
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // Bits of a channel, true colour; deflate, filters by the row, not interlaced.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", &header[..]), (b"IDAT", &packed[..]), (b"IEND", &[][..])] {
        let mut sum = flate2::Crc::new();
        sum.update(kind);
        sum.update(data);
        file.extend((data.len() as u32).to_be_bytes());
        file.extend(kind);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    }
    file
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;
    use plotters::prelude::*;

    use super::*;

    #[test]
    fn what_was_drawn_is_in_the_file() {
        let pixels: Vec<u8> = (0..2 * 3 * CHANNELS as u8).collect();
        let file = png((2, 3), &pixels);
        // The chunks' lengths lead from one to the next, and the last is empty.
        let mut at = 8;
        let mut data = Vec::new();
        let mut kinds = Vec::new();
        while at < file.len() {
            let len = u32::from_be_bytes(file[at..at + 4].try_into().expect("four")) as usize;
            let body = &file[at + 4..at + 8 + len];
            let mut sum = flate2::Crc::new();
            sum.update(body);
            assert_eq!(file[at + 8 + len..at + 12 + len], sum.sum().to_be_bytes());
            kinds.push(String::from_utf8_lossy(&body[..4]).into_owned());
            if &body[..4] == b"IDAT" {
                data.extend_from_slice(&body[4..]);
            }
            at += 12 + len;
        }
        assert_eq!(kinds, ["IHDR", "IDAT", "IEND"]);
        let mut rows = Vec::new();
        ZlibDecoder::new(&data[..]).read_to_end(&mut rows).expect("packed");
        let wanted: Vec<u8> = pixels.chunks(6).flat_map(|row| [&[0], row].concat()).collect();
        assert_eq!(rows, wanted);
    }

    /// Bounds of what is not white.
    fn inked(pixels: &[u8], width: usize) -> Option<(usize, usize, usize, usize)> {
        let dark = pixels.chunks(CHANNELS).enumerate().filter(|(_, own)| own[0] < 128);
        dark.map(|(at, _)| (at % width, at / width)).fold(None, |seen, (x, y)| match seen {
            None => Some((x, x, y, y)),
            Some((x0, x1, y0, y1)) => Some((x0.min(x), x1.max(x), y0.min(y), y1.max(y))),
        })
    }

    /// Without a font a machine is told which package has one.
    #[test]
    fn text_is_where_it_is_anchored_and_turns() {
        let Ok(font) = Font::find() else {
            assert!(Font::find().is_err_and(|error| error.contains("fonts-dejavu-core")));
            return;
        };
        const SIDE: u32 = 100;
        let drawn = |turn: FontTransform, anchor: HPos| {
            let mut pixels = Vec::new();
            let mut canvas = Canvas::new(&font, (SIDE, SIDE), &mut pixels);
            let style = TextStyle::from(("sans-serif", 15).into_font().transform(turn));
            let style = style.pos(plotters::style::text_anchor::Pos::new(anchor, VPos::Center));
            canvas.draw_text("IIIIII", &style, (50, 50)).expect("it can't fail");
            inked(&pixels, SIDE as usize).expect("letters")
        };
        let (left, right, top, bottom) = drawn(FontTransform::None, HPos::Left);
        assert!(left >= 50 && right > left + 10 && bottom - top < 15, "{left} {right}");
        assert!(top < 50 && bottom > 49, "{top} {bottom}");
        let (_, right, ..) = drawn(FontTransform::None, HPos::Right);
        assert!(right <= 50, "{right}");
        // Upright, its end at the anchor, the rest of it below.
        let (left, right, top, bottom) = drawn(FontTransform::Rotate270, HPos::Right);
        assert!(top >= 49 && bottom > top + 10 && right - left < 15, "{top} {bottom}");
        assert!(Font::within(&[PathBuf::from("no-such-folder")]).is_none());
        assert!(Font::of(b"not a font").is_none());
    }

    #[test]
    fn colours_mix_and_what_is_outside_is_lost() {
        let Ok(font) = Font::find() else { return };
        let mut pixels = Vec::new();
        let mut canvas = Canvas::new(&font, (2, 1), &mut pixels);
        for point in [(0, 0), (-1, 0), (2, 0), (0, 1)] {
            let color = BackendColor { alpha: 0.5, rgb: (255, 0, 155) };
            canvas.draw_pixel(point, color).expect("it can't fail");
        }
        assert_eq!(pixels, [255, 128, 205, 255, 255, 255]);
    }
}
