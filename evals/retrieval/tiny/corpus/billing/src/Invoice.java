package billing;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.List;

/** The monthly bill of a business customer. */
public final class Invoice {
    private static final BigDecimal VAT = new BigDecimal("0.19");
    private final List<BigDecimal> amounts;

    public Invoice(List<BigDecimal> amounts) {
        this.amounts = List.copyOf(amounts);
    }

    /** Net amount with value added tax, rounded half up to cents. */
    public BigDecimal gross() {
        BigDecimal net = amounts.stream().reduce(BigDecimal.ZERO, BigDecimal::add);
        return net.add(net.multiply(VAT)).setScale(2, RoundingMode.HALF_UP);
    }
}
