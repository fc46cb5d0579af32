"""How Spark starts in tests: with a Java that compiles little, as it runs for seconds only."""

SUBMIT = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
    "--conf spark.ui.enabled=false pyspark-shell"
)
