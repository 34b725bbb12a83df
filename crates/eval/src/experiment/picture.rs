//! Pictures of results, as SVG and as PNG.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use super::raster::{self, Canvas, Font};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A group of bars for each place on the x axis, a bar for each series.
    Bars,
    Lines,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    pub label: String,
    pub logarithmic: bool,
}

impl Axis {
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_owned(), logarithmic: false }
    }

    pub fn logarithmic(label: &str) -> Axis {
        Axis { label: label.to_owned(), logarithmic: true }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    /// Of bars: x is the number of the group.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Those that there are: a result has no word for what is not a number, and could not be read
    /// again.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        Series { name: name.into(), points: points.into_iter().filter(finite).collect() }
    }

    /// Bars, one for each group.
    pub fn bars(name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Series {
        Series::new(name, (0..).map(f64::from).zip(heights).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Of its file, unlike any other of its experiment.
    pub name: String,
    pub title: String,
    pub kind: Kind,
    pub x: Axis,
    pub y: Axis,
    /// Of bars: the names of the groups.
    pub groups: Vec<String>,
    pub series: Vec<Series>,
}

const SIZE: (u32, u32) = (760, 340);
const FONT: &str = "sans-serif";
/// Told apart also by those who see fewer colours (Okabe and Ito), and in print.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 96, 168),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
    RGBColor(140, 86, 75),
];

impl Picture {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.series.iter().flat_map(|series| series.points.iter().copied())
    }

    /// Least and most of what an axis has to show.
    fn range(&self, axis: &Axis, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let shows = |value: &f64| !axis.logarithmic || *value > 0.0;
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(shows) {
            (least, most) = (least.min(value), most.max(value));
        }
        match (least.is_finite(), axis.logarithmic) {
            (false, _) => (0.1, 1.0),
            (true, true) => {
                (10f64.powf(least.log10().floor()), 10f64.powf((most * 1.001).log10().ceil()))
            }
            (true, false) => {
                let least = least.min(0.0);
                (least, if most > least { most + (most - least) * 0.05 } else { least + 1.0 })
            }
        }
    }

    pub fn svg(&self) -> String {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, self.size()).into_drawing_area();
            self.draw(&area).expect("text takes everything");
        }
        text
    }

    pub fn png(&self, font: &Font) -> Vec<u8> {
        let mut pixels = Vec::new();
        {
            let area = Canvas::new(font, self.size(), &mut pixels).into_drawing_area();
            self.draw(&area).expect("memory takes everything");
        }
        raster::png(self.size(), &pixels)
    }

    /// How much higher names of groups make it that don't fit beside each other: they stand.
    fn upright(&self) -> Option<u32> {
        /// Of a letter, about.
        const WIDTH: usize = 6;
        let longest = self.groups.iter().map(|name| name.chars().count()).max()?;
        let fits = longest * self.groups.len() * WIDTH < SIZE.0 as usize;
        (self.kind == Kind::Bars && !fits).then_some((longest * WIDTH) as u32)
    }

    fn size(&self) -> (u32, u32) {
        (SIZE.0, SIZE.1 + self.upright().unwrap_or(0))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B> {
        area.fill(&WHITE)?;
        let x = match self.kind {
            Kind::Bars => (-0.5, self.groups.len().max(1) as f64 - 0.5),
            Kind::Lines => self.range(&self.x, self.points().map(|point| point.0)),
        };
        let y = self.range(&self.y, self.points().map(|point| point.1));
        let mut chart = ChartBuilder::on(area);
        chart
            .caption(&self.title, (FONT, 15))
            .margin(8)
            .margin_right(16)
            .set_label_area_size(LabelAreaPosition::Left, 58)
            .set_label_area_size(LabelAreaPosition::Bottom, 40 + self.upright().unwrap_or(0));
        // The coordinates are logarithms, so that both kinds of axes are one type.
        let scaled = |axis: &Axis, value: f64| if axis.logarithmic { value.log10() } else { value };
        let (from, to) = (scaled(&self.y, y.0), scaled(&self.y, y.1));
        let (left, right) = match self.kind {
            Kind::Bars => x,
            Kind::Lines => (scaled(&self.x, x.0), scaled(&self.x, x.1)),
        };
        let mut chart = chart.build_cartesian_2d(left..right, from..to)?;
        self.mesh(&mut chart)?;
        self.names(area, &chart, from)?;
        for (at, series) in self.series.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let drawn = match self.kind {
                Kind::Lines => {
                    let place = |&(px, py): &(f64, f64)| (scaled(&self.x, px), scaled(&self.y, py));
                    let shows = |(px, py): &(f64, f64)| px.is_finite() && py.is_finite();
                    let points = series.points.iter().map(place).filter(shows);
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                }
                Kind::Bars => {
                    let width = 0.8 / self.series.len() as f64;
                    let bar = |&(px, py): &(f64, f64)| {
                        let begin = px - 0.4 + width * at as f64;
                        let top = scaled(&self.y, py);
                        let foot = if self.y.logarithmic { from } else { 0.0 };
                        let corners = [(begin, foot), (begin + width * 0.92, top)];
                        top.is_finite().then(|| Rectangle::new(corners, colour.filled()))
                    };
                    chart.draw_series(series.points.iter().filter_map(bar))?
                }
            };
            drawn.label(&series.name).legend(move |(lx, ly)| {
                Rectangle::new([(lx, ly - 5), (lx + 12, ly + 5)], colour.filled())
            });
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .label_font((FONT, 12))
                .draw()?;
        }
        area.present()
    }

    /// Names of groups that stand below the axis, whose ends are at the axis.
    fn names<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        chart: &Chart<'_, B>,
        foot: f64,
    ) -> Drawn<B> {
        const GAP: i32 = 10;
        let font = (FONT, 12).into_font().transform(FontTransform::Rotate270);
        let style = TextStyle::from(font).pos(Pos::new(HPos::Right, VPos::Center));
        let standing = self.groups.iter().enumerate().filter(|_| self.upright().is_some());
        for (at, name) in standing {
            let (x, y) = chart.backend_coord(&(at as f64, foot));
            area.draw_text(name, &style, (x, y + GAP))?;
        }
        Ok(())
    }

    fn mesh<B: DrawingBackend>(&self, chart: &mut Chart<'_, B>) -> Drawn<B> {
        let label = |axis: &Axis, value: f64| match axis.logarithmic {
            true => super::shown(10f64.powf(value)),
            false => super::shown(value),
        };
        let of_x = |value: &f64| match self.kind {
            Kind::Lines => label(&self.x, *value),
            Kind::Bars if self.upright().is_some() => String::new(),
            // Bars stand at whole numbers.
            Kind::Bars if (value - value.round()).abs() > 1e-6 => String::new(),
            Kind::Bars => self.groups.get(value.round() as usize).cloned().unwrap_or_default(),
        };
        let of_y = |value: &f64| label(&self.y, *value);
        let count = if self.kind == Kind::Bars { 2 * self.groups.len() + 1 } else { 10 };
        let mut mesh = chart.configure_mesh();
        mesh.x_labels(count)
            .x_label_formatter(&of_x)
            .y_label_formatter(&of_y)
            .x_desc(self.x.label.clone())
            .y_desc(self.y.label.clone())
            .label_style((FONT, 12))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12));
        if self.kind == Kind::Bars {
            mesh.disable_x_mesh();
        }
        mesh.draw()
    }
}

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;
type Chart<'a, B> = ChartContext<
    'a,
    B,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(kind: Kind, logarithmic: bool) -> Picture {
        let axis = |label: &str| Axis { label: label.to_owned(), logarithmic };
        Picture {
            name: "p".to_owned(),
            title: "a < b".to_owned(),
            kind,
            x: axis("x"),
            y: axis("y"),
            groups: vec!["one".to_owned(), "two".to_owned()],
            series: vec![
                Series::bars("first", [1.0, 10.0]),
                Series::bars("second", [f64::NAN, 1000.0]),
            ],
        }
    }

    #[test]
    fn every_kind_is_drawn_whatever_is_missing() {
        for kind in [Kind::Bars, Kind::Lines] {
            for logarithmic in [false, true] {
                let svg = picture(kind, logarithmic).svg();
                assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
                assert!(svg.contains("first") && svg.contains("second"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                let empty = Picture { series: vec![], ..picture(kind, logarithmic) };
                assert!(empty.svg().ends_with("</svg>\n"), "{}", empty.svg());
            }
        }
        let bars = picture(Kind::Bars, false).svg();
        assert!(bars.contains("one") && bars.contains("two"), "{bars}");
    }

    #[test]
    fn a_picture_with_something_missing_is_read_as_it_was_written() {
        let picture = picture(Kind::Bars, false);
        let text = serde_json::to_string(&picture).expect("it is written");
        assert_eq!(serde_json::from_str::<Picture>(&text).expect("it is read"), picture);
    }

    #[test]
    fn names_that_do_not_fit_stand() {
        let groups: Vec<String> = (0..20).map(|at| format!("scheme number {at}")).collect();
        let few = picture(Kind::Bars, true);
        let many = Picture { groups, ..few.clone() };
        let turned = |picture: &Picture| picture.svg().matches("rotate(270").count();
        // The y axis has one turned text.
        assert_eq!((turned(&few), turned(&many)), (1, 21));
        assert!(many.size().1 > few.size().1 && many.svg().contains("scheme number 19"));
    }

    /// The same drawing: where the SVG has a bar the PNG has its colour.
    #[test]
    fn the_png_shows_what_the_svg_does() {
        let Ok(font) = Font::find() else { return };
        let picture = picture(Kind::Bars, false);
        let (width, height) = picture.size();
        let file = picture.png(&font);
        assert_eq!(file[16..24], [width.to_be_bytes(), height.to_be_bytes()].concat());
        let mut pixels = Vec::new();
        {
            let area = Canvas::new(&font, picture.size(), &mut pixels).into_drawing_area();
            picture.draw(&area).expect("memory takes everything");
        }
        let count = |colour: RGBColor| {
            let own = [colour.0, colour.1, colour.2];
            pixels.chunks(3).filter(|pixel| **pixel == own).count()
        };
        // The second series has a bar of 1000 of at most 1050, the first of 1 and of 10.
        assert!(count(COLOURS[1]) > 10_000, "{}", count(COLOURS[1]));
        assert!((100..2_000).contains(&count(COLOURS[0])), "{}", count(COLOURS[0]));
        assert_eq!(count(COLOURS[2]), 0);
    }
}
