mod plans;
mod rebuilt;
