"""What figures that matplotlib still draws need; it goes when the last of them is a Vega-Lite specification."""
