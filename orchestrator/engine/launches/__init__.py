"""Launches (measurements in fresh processes, one for each device): how their processes start, report and end."""
