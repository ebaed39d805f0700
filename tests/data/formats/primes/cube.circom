pragma circom 2.0.0;
template Cube() {
    signal input a;
    signal input b;
    signal output out;
    signal square;
    square <== a * a;
    out <== square * a - b * 3;
}
component main {public [b]} = Cube();
