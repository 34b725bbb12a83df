//! Plain column tables: two spaces between columns, no borders, numbers to the right.

use comfy_table::{CellAlignment, Table, presets};

/// A table with a heading line. `right` lists the columns that hold numbers.
pub struct Columns {
    table: Table,
}

impl Columns {
    pub fn new(heading: &[&str], right: &[usize]) -> Columns {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(heading.to_vec());
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if right.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Columns { table }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells.iter().map(|cell| printable(cell)));
    }

    /// The lines, each after `indent` spaces, without blanks at their ends.
    pub fn render(&self, indent: usize) -> String {
        let mut text = String::new();
        for line in self.table.lines() {
            text.push_str(&" ".repeat(indent));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Names come from disks and clients: control characters would let them rewrite the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_control_characters_are_masked() {
        let mut columns = Columns::new(&["NAME", "SIZE"], &[1]);
        columns.row(vec!["a\x1b[2J".to_owned(), "5".to_owned()]);
        columns.row(vec!["longer name".to_owned(), "12345".to_owned()]);
        assert_eq!(
            columns.render(2),
            "  NAME          SIZE\n  a?[2J            5\n  longer name  12345\n"
        );
    }
}
