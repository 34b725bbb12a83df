//! The command line of `flush-check`.

use std::path::PathBuf;

use super::pattern::{SECTOR, SECTORS_PER_PAGE};

#[derive(Clone, Debug)]
pub struct Options {
    pub socket: PathBuf,
    pub export: String,
    pub log: Option<PathBuf>,
    pub connections: usize,
    pub region: u64,
    pub seconds: u64,
    pub cycles: u64,
    pub seed: u64,
    pub lose: Vec<PathBuf>,
    pub server: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            socket: PathBuf::new(),
            export: String::new(),
            log: None,
            connections: 4,
            region: 16 << 20,
            seconds: 10,
            cycles: 200,
            seed: 1,
            lose: Vec::new(),
            server: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            if name == "--" {
                options.server = rest.cloned().collect();
                break;
            }
            let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
            options.set(name, value)?;
        }
        options.validate()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name {
            "--socket" => self.socket = value.into(),
            "--export" => self.export = value.to_owned(),
            "--log" => self.log = Some(value.into()),
            "--lose" => self.lose.push(value.into()),
            "--connections" => {
                self.connections = usize::try_from(number()?).map_err(|e| e.to_string())?;
            }
            "--region" => self.region = number()?,
            "--seconds" => self.seconds = number()?,
            "--cycles" => self.cycles = number()?,
            "--seed" => self.seed = number()?,
            _ => return Err(format!("no option {name}")),
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), String> {
        if self.socket.as_os_str().is_empty() {
            return Err("--socket is missing".to_owned());
        }
        if self.connections == 0 || self.connections > 64 {
            return Err("--connections: use 1 to 64".to_owned());
        }
        // The longest request must fit a region with room for others.
        if self.region < 4 << 20 || !self.region.is_multiple_of(SECTOR as u64 * SECTORS_PER_PAGE) {
            return Err("--region: use at least 4194304, in whole pages of 4096".to_owned());
        }
        Ok(())
    }

    pub fn region_sectors(&self) -> u64 {
        self.region / SECTOR as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_taken_and_the_server_follows() {
        let options = parse("--socket s --cycles 3 -- serve --fast").expect("valid");
        assert_eq!((options.cycles, options.connections), (3, 4));
        assert_eq!(options.server, ["serve", "--fast"]);
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = ["", "--socket", "--socket s --region 4194305", "--socket s --connections 0"];
        for line in bad.into_iter().chain(["--socket s --cycles many", "--socket s --what 1"]) {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
